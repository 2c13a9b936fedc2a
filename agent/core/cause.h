/* SPDX-License-Identifier: Apache-2.0 */
/* cause.h - why a generation, an attempt or a job ended: a closed list of causes
 *
 * Pure: no clock, no I/O.
 * Takes evidence, gives cause and sentence. Order of precedence: the kernel and the rank's own
 * report, exit codes with a meaning, the output (agent/core/rules.h). The first failure across
 * ranks is the root cause (agent/core/root_cause.h); later ones are cascade.
 */
#ifndef AGENT_CORE_CAUSE_H
#define AGENT_CORE_CAUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cause {
    CAUSE_NONE,            /* no failure */
    CAUSE_RANK_CRASH,      /* a signal that jobctl did not send */
    CAUSE_WRONG_PROCESSOR, /* an instruction that the processor does not have: SIGILL */
    CAUSE_HANG_INIT,
    CAUSE_HANG_STEP,
    CAUSE_DESYNC,
    CAUSE_NCCL_ERROR,
    CAUSE_DUPLICATE_GPU,
    CAUSE_TOO_FEW_GPUS,   /* on this node; another one may have them */
    CAUSE_GPU_OOM,
    CAUSE_HOST_OOM,
    CAUSE_GPU_FAULT,      /* the hardware itself reported it: an uncorrectable memory error, NVLink, Xid */
    CAUSE_CUDA_ERROR,     /* the hardware reported nothing: an illegal memory access, a launch failure, a busy GPU */
    CAUSE_NODE_LOST,
    CAUSE_PREEMPTED,
    CAUSE_TIME_LIMIT,
    CAUSE_NAN_LOSS,
    CAUSE_DATA_ERROR,
    CAUSE_CHECKPOINT_ERROR,
    CAUSE_DISK_FULL,
    CAUSE_IO_ERROR,       /* a disk or network file system failed: EIO, ESTALE */
    CAUSE_RESOURCE_LIMIT, /* out of file descriptors, processes or threads: EMFILE */
    CAUSE_DIR_IN_USE,     /* another job writes into its checkpoint.dir */
    CAUSE_NETWORK_ERROR,  /* a download failed (agent/fetch) */
    CAUSE_CONFIG_ERROR,
    CAUSE_USER_EXIT, /* error code of a `run:` command */
    CAUSE_AGENT_LOST,
    CAUSE_START_FAILED,     /* no agent ever answered, for none of the causes below */
    CAUSE_SLURM_REFUSED,    /* Slurm rejects an option of the job; a retry cannot help */
    CAUSE_HOST_UNUSABLE,    /* somebody must first change something on the host */
    CAUSE_HOST_UNREACHABLE, /* no connection, or no login */
    CAUSE_UNKNOWN,
    CAUSES
};

/* Evidence about the first rank that failed. */
struct evidence {
    bool        engine;       /* jobctl-train, not a `run:` command */
    bool        signalled;    /* ended by a signal ... */
    int         signo;
    int         exit_code;    /* ... or with this code */
    bool stop_asked;          /* jobctl had requested its end */
    bool        oom_killed;   /* the kernel's out-of-memory killer, by cgroup or log */
    const char *reported;     /* cause named by the rank's own `failed` line, or NULL */
    const char *text;         /* that line's message, or NULL */
    const char *last_lines;   /* tail of its output, or NULL */
    const char *kernel;       /* kernel messages since it started, or NULL */
    const char *command;      /* what the shell ran, or NULL */
};

enum { CAUSE_TEXT = 500 };

struct verdict {
    enum cause cause;
    bool retry_helps;         /* false: a retry would fail the same way (config_error) */
    char       text[CAUSE_TEXT];         /* "rank 0 was killed by SIGKILL (9)" */
    char       detail[CAUSE_TEXT - 16];  /* the same without the rank */
    bool passing;             /* the command's output mentions something temporary: a network, a file system, a
                               * device */
    bool echo;                /* it only reports that another rank failed before */
    bool shared;              /* another rank failed independently in the same way (root_cause.h) */
    char line[200];           /* the output line that proves it, "" = none */
    char place[96];           /* "train.py:41" of an exception that may be a mistake of the script, "" = none: the
                               * same again at the same line is not worth many tries (restart_policy.h) */
    const char *advice;       /* static, or NULL */
};

/* The last line of an output that is not blank; "": none. Returns `out`. */
const char *cause_last_line(char *out, size_t size, const char *lines);

void cause_classify(struct verdict *out, const struct evidence *e, int rank);

/* By the cause alone: may a retry succeed? */
bool cause_retry_helps(enum cause cause);

const char *cause_name(enum cause cause);
const char *cause_meaning(enum cause cause);          /* one short phrase */
int cause_parse(enum cause *cause, const char *name); /* -1: no such cause */

#endif
