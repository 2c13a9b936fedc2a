/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - a launcher (local, ssh, slurm) as a table of functions
 *
 * A link is the controller's end of one attempt: it finds or starts the
 * attempt's agent, reconnects when the stream breaks, and in the end either
 * receives attempt_ended or proves that no process of the attempt is left.
 * Hooks are never called from within a function of the table.
 */
#ifndef CONTROLLER_REMOTE_REMOTE_H
#define CONTROLLER_REMOTE_REMOTE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/core/cause.h"
#include "agent/wire/wire.h"

struct err;
struct file_work;
struct remote_link;

/* An attempt of a sweep's member, if the launcher takes several at once. */
struct remote_array {
    int64_t     sweep;          /* 0: not a member */
    const char *dir;            /* of the sweep */
    int64_t     most;           /* members of the sweep that may run at once; 0: all */
    int         wave, size;     /* the sweep starts `size` members together as its wave `wave`; 0: not known */
};

/* The texts are copied. */
struct remote_link_spec {
    struct file_work *files;    /* runs accesses to run_dir; NULL: in the loop */
    int64_t     job, attempt;
    const char *nonce;
    const char *origin;         /* the job's identity, "": not known */
    const char *run_dir;
    bool        may_start;      /* start an agent if there never was one; else report "lost" */
    const char *code;           /* jobs/<id>/code of a job whose code goes to the host; NULL: none */
    const char *host, *key;     /* for another machine: its name, and the job's name there */
    bool        known;          /* its agent has connected before */
    bool        yields;         /* report an unreachable host at once, if no agent of the attempt has connected */
    bool        dismiss;        /* end all its processes, however long it takes; then report lost */
    bool        forget;         /* with dismiss: also remove the job's copy of its code there */
    uint64_t    delay_ms;       /* delay before the first look */
    int         node, nodes;    /* node of this agent, and number of nodes of the attempt */
    int         least;          /* minimum nodes that Slurm may allocate ... */
    const char *avoid;          /* ... except these: "a,b" */
    int64_t     save_ms;        /* recent duration of a checkpoint; 0: unknown */
    const char *gpus;           /* simulated nodes on one machine: the GPUs of this one, "" = all */
    bool        no_nvml;        /* this machine has no NVIDIA library: its agents need not look */
    struct remote_array array;
};

/* A hook may close the link. Bodies are borrowed. */
struct remote_link_hooks {
    void (*message)(void *arg, enum wire_message number, const json_t *body);
    /* The attempt is over without attempt_ended: none of its processes is alive, and events spooled beyond acked()
     * have been delivered through message() as WIRE_EVENT. */
    void (*lost)(void *arg, const char *text);
    /* The same, if the agent could not be started or could not create its files; `cause` decides whether a retry
     * helps. NULL: as lost. */
    void (*not_started)(void *arg, enum cause cause, const char *text);
    int64_t (*acked)(void *arg);
    /* The machine stopped answering: lost, but its agent may be alive (orphan.h). */
    void (*vanished)(void *arg, const char *text);
    /* Nothing has started yet: `text` is what it waits for. May be NULL. */
    void (*waiting)(void *arg, const char *text);
    /* Which channel the agent uses, if there are several, and whether it is the preferred one.
     * May be NULL. */
    void (*channel_text)(void *arg, const char *text, bool best);
    void *arg;
};

struct remote {
    const char *name;
    int (*open)(struct remote_link **out, uv_loop_t *loop, const struct remote_link_spec *spec,
                const struct remote_link_hooks *hooks, struct err *err);
    /* Takes the body. Without a connection, the message is dropped; HELLO announces the next connection. */
    void (*send)(struct remote_link *link, enum wire_message number, json_t *body);
    /* Pending output is still sent; no more hooks are called. The agent keeps running. */
    void (*close)(struct remote_link *link);
};

extern const struct remote remote_local, remote_ssh, remote_slurm;

/* The launcher of a job, from `launch` of its canonical spec: auto is local. */
const struct remote *remote_of_spec(const json_t *spec);

/* True if jobctl-ssh was built. */
bool remote_ssh_there(void);

/* The job's name on machines that several controllers use. */
void remote_key(char *out, size_t size, const char *instance, int64_t job);

/* The GPUs of simulated node `node` with `each` GPUs per node, as in CUDA_VISIBLE_DEVICES; "" if
 * the nodes share all. */
void remote_share_gpus(char *out, size_t size, int64_t each, int node);

#endif
