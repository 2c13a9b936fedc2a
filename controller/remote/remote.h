/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - a place where attempts run, as one table of functions
 *
 * A link is the controller's end of one attempt: it finds the attempt's agent
 * or starts one, reconnects when the stream breaks, and in the end either
 * hears attempt_ended or proves that nothing of the attempt is left.  The
 * hooks are never called from within a function of the table.
 */
#ifndef CONTROLLER_REMOTE_REMOTE_H
#define CONTROLLER_REMOTE_REMOTE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "agent/wire/wire.h"

struct err;
struct remote_link;

/* The texts are copied. */
struct remote_link_spec {
    int64_t     job, attempt;
    const char *nonce;
    const char *run_dir;
    bool        may_start;      /* start an agent where none ever was; else that is "lost" */
    const char *host, *key;     /* on another machine: which, and the job's name there */
    bool        dismiss;        /* end what lives of it, however long it takes; then it is lost */
    uint64_t    delay_ms;       /* before it first looks */
    int         node, nodes;    /* of the attempt: which node this agent is for, and of how many */
    int         least;          /* Slurm may give so few of `nodes` ... */
    const char *avoid;          /* ... and none of these: "a,b" */
    int64_t     save_ms;        /* so long did a checkpoint of it take lately; 0: not known */
    bool        secrets;        /* some go with LAUNCH */
    const char *gpus;           /* this machine plays several nodes: what this one sees, "" = as it is */
};

/* A hook may close the link. Bodies are borrowed. */
struct remote_link_hooks {
    void (*message)(void *arg, enum wire_message number, const json_t *body);
    /* The attempt is over without attempt_ended: nothing of it lives, and what its agent had
     * spooled beyond acked() has gone through message() as WIRE_EVENT. */
    void (*lost)(void *arg, const char *text);
    int64_t (*acked)(void *arg);
    /* Nothing was started, and nothing will be until somebody changes what `text` says. */
    void (*refused)(void *arg, const char *text);
    /* The machine does not answer any more: lost, but its agent may live (orphan.h). */
    void (*vanished)(void *arg, const char *text);
    /* Nothing has started yet: what it waits for, for people. NULL: nobody wants to know. */
    void (*waiting)(void *arg, const char *text);
    /* By which way the agent is heard, where there is more than one; is it the best? NULL: nobody wants
     * to know. */
    void (*channel_text)(void *arg, const char *text, bool best);
    void *arg;
};

struct remote {
    const char *name;
    int (*open)(struct remote_link **out, uv_loop_t *loop, const struct remote_link_spec *spec,
                const struct remote_link_hooks *hooks, struct err *err);
    /* Takes the body. Without a connection the message is dropped: HELLO will tell that there is
     * one again. */
    void (*send)(struct remote_link *link, enum wire_message number, json_t *body);
    /* What was sent still goes out; no hook is called any more. The agent goes on. */
    void (*close)(struct remote_link *link);
};

extern const struct remote remote_local, remote_ssh, remote_slurm;

/* Where a job runs, from `launch` of its canonical spec: auto is local. */
const struct remote *remote_of_spec(const json_t *spec);

/* Was the helper of remote_ssh built? */
bool remote_ssh_there(void);

/* The name of a job on machines that serve several controllers. */
void remote_key(char *out, size_t size, const char *instance, int64_t job);

/* GPUs of node `node` where this machine plays several with `each`: as in CUDA_VISIBLE_DEVICES; "" where
 * they are not to be told apart. */
void remote_share_gpus(char *out, size_t size, int64_t each, int node);

/* The path of the agent that belongs to this program. */
void remote_agent_program(char *out, size_t size);

#endif
