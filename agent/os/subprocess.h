/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.h - starts a program, reads its lines, limits its time, reports its end
 *
 * subprocess_start(), _wait() and _run() need no event loop; subprocess_open() and what follows it
 * use one.  The program has default signals and the descriptors named here; all others are closed.
 */
#ifndef AGENT_OS_SUBPROCESS_H
#define AGENT_OS_SUBPROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "engine/base/buf.h"

struct err;
struct subprocess;

enum {
    SUBPROCESS_EXTRA = 160,
    SUBPROCESS_FIRST_FD = 3,   /* number of extra descriptors */
    SUBPROCESS_NULL = 0,       /* instead of a descriptor: /dev/null */
    SUBPROCESS_PIPE = -1,      /* instead of a descriptor: see subprocess_run(), subprocess_open() */
    SUBPROCESS_OUT = -2,       /* for err: the same as out */
    SUBPROCESS_SIGNALLED = 256 /* added to the number of the signal that ended a program */
};

struct subprocess_spec {
    const char *const *argv; /* argv[0]: a path, or a name to be found in PATH */
    char *const *env;        /* NULL: this process's environment */
    const char *const *set;  /* "NAME=VALUE", ended by NULL: replaces or adds a variable; or NULL */
    const char *cwd;         /* NULL: inherited */
    const char *cpus;        /* CPU affinity such as "0-3,8"; NULL: inherited */
    int in, out, err;
    int extra[SUBPROCESS_EXTRA];
    int n_extra;
    void (*enter)(int arg); /* called in the child before exec, async-signal-safe; or NULL */
    int enter_arg;
    bool session; /* it leads a new session; signals go to its process group, whose id is its pid */
    int limit_ms; /* subprocess_run(): kills the program then, even if it still writes; 0: no limit */
    size_t most;  /* subprocess_run(): keeps only about this many last bytes of each output; 0: all */
    bool tied;    /* it gets SIGTERM when the thread that started it ends */
};

/* Returns the pid, or -1 with err set; no process is left running on failure. */
pid_t subprocess_start(const struct subprocess_spec *spec, struct err *err);

/* Returns the exit code, or SUBPROCESS_SIGNALLED + N, or -1 if another process has reaped it. */
int subprocess_wait(pid_t pid);

/* Runs a program to its end.  out[0] gets its stdout and out[1] its stderr, if spec has SUBPROCESS_PIPE for them; the
 * caller frees them.  Returns what subprocess_wait() does; -1 with err set: not started, or killed: no output for
 * wait_ms (-1: forever), or spec->limit_ms over. */
int subprocess_run(const struct subprocess_spec *spec, struct buf out[2], int wait_ms, struct err *err);

/* The output as text; "" if there was none. */
const char *subprocess_text(const struct buf *b);

/* The last line of a file that received a program's stderr, printable, without "NAME: ". */
void subprocess_last_line(char *out, size_t size, int fd, const char *name);

/* --- on an event loop ---------------------------------------------------------------------------- */

struct subprocess_end {
    int code;              /* as returned by subprocess_wait() */
    bool timed_out;        /* killed at its time limit */
    const struct buf *out; /* without a `line` hook: its whole output */
    int said;              /* its stderr as a file, or -1 */
};

/* A hook may call subprocess_close(). */
struct subprocess_hooks {
    void (*line)(void *arg, const char *text, size_t size); /* without '\n'; NULL: see subprocess_end */
    void (*ended)(void *arg, const struct subprocess_end *end); /* *out becomes invalid after this call */
    void *arg;
};

/* SUBPROCESS_PIPE: `in` takes subprocess_tell(), `out` is read, `err` is kept in memory.
 * limit_ms: 0 = none.  *out frees itself after `ended` or subprocess_close(). */
int subprocess_open(struct subprocess **out, uv_loop_t *loop, const struct subprocess_spec *spec,
                    int64_t limit_ms, const struct subprocess_hooks *hooks, struct err *err);

/* Starts a new time limit, after which the program is killed; `ended` follows. */
void subprocess_limit(struct subprocess *p, int64_t limit_ms);

void subprocess_tell(struct subprocess *p, const char *text, size_t size);
void subprocess_end_input(struct subprocess *p);

/* No effect after its end. */
void subprocess_kill(struct subprocess *p, int signo);

/* Sends it a signal (0: none), closes its pipes, calls no more hooks and sets *p to NULL. *p may already be NULL. */
void subprocess_close(struct subprocess **p, int signo);

#endif
