/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess_loop.c - a program on an event loop; see subprocess.h
 *
 * Its end is the end of its output and its death, told by SIGCHLD.  Where another reaps all children
 * (agent/ranks/ranks.c) the death is known and the exit code is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "engine/base/err.h"

enum { HANDLES = 4, TEXT_MOST = 64 << 20 };

struct subprocess {
    struct subprocess_hooks hooks;
    uv_signal_t died;
    uv_timer_t  limit;
    uv_pipe_t   in, out;
    int         handles; /* not yet closed */
    pid_t       pid;     /* 0: reaped */
    int         code, said;
    bool        session, reading;
    bool        over; /* call no hook any more */
    struct buf  text;
    char        bytes[65536];
};

/* --- release ------------------------------------------------------------------------------------- */

static void closed(uv_handle_t *handle)
{
    struct subprocess *p = handle->data;
    if (--p->handles > 0)
        return;
    buf_fini(&p->text);
    if (p->said >= 0)
        close(p->said);
    free(p);
}

static void close_one(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, closed);
}

/* Until the process is reaped, the signal handle stays; it does not keep the loop alive. */
static void let_go(struct subprocess *p)
{
    p->over = true;
    close_one(&p->in);
    close_one(&p->out);
    close_one(&p->limit);
    if (p->pid)
        uv_unref((uv_handle_t *)&p->died);
    else
        close_one(&p->died);
}

static void end(struct subprocess *p, bool timed_out)
{
    const struct subprocess_end e = {p->code, timed_out, &p->text, p->said};
    p->over = true;
    p->hooks.ended(p->hooks.arg, &e);
    let_go(p);
}

static void look(struct subprocess *p)
{
    int status = 0;
    pid_t n = p->pid ? waitpid(p->pid, &status, WNOHANG) : 0;
    if (n > 0)
        p->code = WIFEXITED(status) ? WEXITSTATUS(status) : SUBPROCESS_SIGNALLED + WTERMSIG(status);
    if (n != 0)
        p->pid = 0;
    if (!p->pid && p->over)
        let_go(p);
    else if (!p->pid && !p->reading)
        end(p, false);
}

static void on_death(uv_signal_t *handle, int signo)
{
    (void)signo;
    look(handle->data);
}

static void on_limit(uv_timer_t *timer)
{
    subprocess_kill(timer->data, SIGKILL);
    end(timer->data, true);
}

/* --- output -------------------------------------------------------------------------------------- */

static void take_lines(struct subprocess *p)
{
    size_t at = 0;
    for (char *end; !p->over && (end = memchr(p->text.data + at, '\n', p->text.size - at));) {
        const size_t size = (size_t)(end - p->text.data) - at;
        p->hooks.line(p->hooks.arg, p->text.data + at, size);
        at += size + 1;
    }
    buf_consume(&p->text, at);
}

static void give_room(uv_handle_t *handle, size_t wish, uv_buf_t *out)
{
    struct subprocess *p = handle->data;
    (void)wish;
    *out = uv_buf_init(p->bytes, sizeof(p->bytes));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    struct subprocess *p = stream->data;
    if (n > 0 && p->text.size < TEXT_MOST && buf_append(&p->text, bytes->base, (size_t)n) == 0) {
        if (p->hooks.line)
            take_lines(p);
        return;
    }
    if (n == 0)
        return;
    close_one(&p->out);
    p->reading = false;
    look(p);
}

/* --- start --------------------------------------------------------------------------------------- */

/* A pipe whose end `ours` (0: for reading) belongs to the handle; returns the other, or -1. */
static int make_pipe(uv_pipe_t *handle, int ours)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    uv_pipe_open(handle, ends[ours]);
    return ends[1 - ours];
}

static void init(struct subprocess *p, uv_loop_t *loop)
{
    uv_signal_init(loop, &p->died);
    uv_timer_init(loop, &p->limit);
    uv_pipe_init(loop, &p->in, 0);
    uv_pipe_init(loop, &p->out, 0);
    p->died.data = p->limit.data = p->in.data = p->out.data = p;
    p->handles = HANDLES;
    p->code = p->said = -1;
}

static pid_t start(struct subprocess *p, const struct subprocess_spec *spec, struct err *err)
{
    struct subprocess_spec s = *spec;
    pid_t pid = -1;
    if (s.in == SUBPROCESS_PIPE)
        s.in = make_pipe(&p->in, 1);
    if (s.out == SUBPROCESS_PIPE)
        s.out = make_pipe(&p->out, 0);
    if (s.err == SUBPROCESS_PIPE)
        s.err = p->said = memfd_create("jobctl-said", MFD_CLOEXEC);
    if (s.in < 0 || s.out < 0 || s.err == -1 || uv_signal_start(&p->died, on_death, SIGCHLD) < 0)
        err_set(err, ERR_SYSTEM, "cannot start %s: %s", s.argv[0], strerror(errno));
    else
        pid = subprocess_start(&s, err);
    if (s.in != spec->in && s.in >= 0)
        close(s.in);
    if (s.out != spec->out && s.out >= 0)
        close(s.out);
    return pid;
}

int subprocess_open(struct subprocess **out, uv_loop_t *loop, const struct subprocess_spec *spec,
                    int64_t limit_ms, const struct subprocess_hooks *hooks, struct err *err)
{
    struct subprocess *p = calloc(1, sizeof(*p));
    *out = NULL;
    if (!p)
        return err_set(err, ERR_MEMORY, "no memory to start %s", spec->argv[0]);
    init(p, loop);
    const pid_t pid = start(p, spec, err);
    if (pid < 0) {
        let_go(p);
        return -1;
    }
    p->hooks = *hooks;
    p->pid = pid;
    p->session = spec->session;
    p->reading = spec->out == SUBPROCESS_PIPE;
    if (p->reading)
        uv_read_start((uv_stream_t *)&p->out, give_room, on_read);
    if (limit_ms > 0)
        subprocess_limit(p, limit_ms);
    *out = p;
    return 0;
}

/* --- use ----------------------------------------------------------------------------------------- */

void subprocess_limit(struct subprocess *p, int64_t limit_ms)
{
    uv_timer_start(&p->limit, on_limit, (uint64_t)limit_ms, 0);
}

struct parcel {
    uv_write_t write;
    char       bytes[];
};

static void sent(uv_write_t *write, int status)
{
    (void)status; /* its end shows in `ended` */
    free(write->data);
}

void subprocess_tell(struct subprocess *p, const char *text, size_t size)
{
    struct parcel *w = malloc(sizeof(*w) + size);
    if (!w)
        return;
    memcpy(w->bytes, text, size);
    w->write.data = w;
    uv_buf_t buf = uv_buf_init(w->bytes, (unsigned)size);
    if (uv_write(&w->write, (uv_stream_t *)&p->in, &buf, 1, sent) != 0)
        free(w);
}

void subprocess_end_input(struct subprocess *p)
{
    close_one(&p->in);
}

void subprocess_kill(struct subprocess *p, int signo)
{
    siginfo_t info;
    if (p->pid && waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0)
        kill(p->session ? -p->pid : p->pid, signo); /* not reaped, so the number is still its own */
}

void subprocess_close(struct subprocess **p, int signo)
{
    if (!*p)
        return;
    if (signo)
        subprocess_kill(*p, signo);
    let_go(*p);
    *p = NULL;
}
