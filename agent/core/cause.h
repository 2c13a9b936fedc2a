/* SPDX-License-Identifier: Apache-2.0 */
/* cause.h - why a generation, an attempt or a job ended: a closed list, each with a rule
 *
 * Pure: no clock, no I/O.
 * Evidence in, cause and sentence out.  What the kernel and the rank itself say
 * counts first, then exit codes with a meaning, then its output (agent/core/rules.h); the
 * first failure in time across ranks decides (agent/core/root_cause.h), later ones are cascade.
 */
#ifndef AGENT_CORE_CAUSE_H
#define AGENT_CORE_CAUSE_H

#include <stdbool.h>
#include <stdint.h>

enum cause {
    CAUSE_NONE,             /* it did not fail */
    CAUSE_RANK_CRASH,       /* a signal nobody of ours sent */
    CAUSE_WRONG_PROCESSOR,  /* an instruction that the processor does not have: SIGILL */
    CAUSE_HANG_INIT,
    CAUSE_HANG_STEP,
    CAUSE_DESYNC,
    CAUSE_NCCL_ERROR,
    CAUSE_DUPLICATE_GPU,
    CAUSE_GPU_OOM,
    CAUSE_HOST_OOM,
    CAUSE_GPU_FAULT,
    CAUSE_NODE_LOST,
    CAUSE_PREEMPTED,
    CAUSE_TIME_LIMIT,
    CAUSE_NAN_LOSS,
    CAUSE_DATA_ERROR,
    CAUSE_CHECKPOINT_ERROR,
    CAUSE_DISK_FULL,
    CAUSE_CONFIG_ERROR,
    CAUSE_USER_EXIT,        /* a `run:` command's own exit code */
    CAUSE_AGENT_LOST,
    CAUSE_UNKNOWN,
    CAUSES
};

/* What is known about the first rank that failed. */
struct evidence {
    bool        engine;       /* jobctl-train, not a `run:` command */
    bool        signalled;    /* ended by a signal ... */
    int         signo;
    int         exit_code;    /* ... or with this code */
    bool        stop_asked;   /* we had asked for it */
    bool        oom_killed;   /* the kernel's out-of-memory killer, by cgroup or log */
    const char *reported;     /* cause named by the rank's own `failed` line, or NULL */
    const char *text;         /* its sentence, or NULL */
    const char *last_lines;   /* tail of its output, or NULL */
    const char *kernel;       /* what the kernel has said since it was started, or NULL */
};

struct verdict {
    enum cause cause;
    bool       retry_helps;   /* false: the same again would end the same (config_error) */
    char       text[256];     /* "rank 0 was killed by SIGKILL (9)" */
    char       detail[224];   /* the same without the rank */
    bool       echo;          /* only says that somebody else had failed before */
    char       line[200];     /* that proves it, "" = none */
    const char *advice;       /* static, or NULL */
};

void cause_classify(struct verdict *out, const struct evidence *e, int rank);

/* By the cause alone: is another try worth it? */
bool cause_retry_helps(enum cause cause);

const char *cause_name(enum cause cause);
const char *cause_meaning(enum cause cause); /* in a few words */
int cause_parse(enum cause *cause, const char *name); /* -1: no such cause */

#endif
