/* SPDX-License-Identifier: Apache-2.0 */
/* followers.c - see followers.h */
#include "controller/attempt/followers.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "controller/attempt/gpu_request.h"
#include "controller/attempt/launch.h"
#include "controller/base/daemon.h"
#include "controller/job/job.h"
#include "controller/job/job_code.h"
#include "controller/job/job_dir.h"
#include "controller/nodes/hosts.h"
#include "controller/nodes/orphan.h"
#include "controller/remote/remote.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

struct follower {
    struct followers   *all;
    struct remote_link *link;      /* NULL: ended or given up */
    int                 node;
    const char         *name;      /* of all->names */
    bool                here;      /* it has sent HELLO */
    int64_t             gpus_asked_ms;  /* gpu_request.h */
    bool                gone;      /* proven: none of its processes lives */
    char                fate[320]; /* why there is no agent, for the leader; "" = nothing */
    char                run_dir[PATH_MAX];
};

struct followers {
    struct job     *job;
    json_t         *names, *endpoint;   /* the leader's endpoint; NULL until it is known */
    char            tag[48];
    int             count;
    struct follower list[];
};

/* ---- messages to them ---- */

static void launch(struct follower *m)
{
    struct followers *all = m->all;
    struct job *job = all->job;
    json_t *group = json_make("{s:i, s:I, s:O, s:O}", "node", m->node, "nodes",
                              (json_int_t)json_array_size(all->names), "names", all->names, "endpoint",
                              all->endpoint);
    struct err err = { 0 };
    json_t *body = launch_follower(job, m->run_dir, group, &err);
    if (body)
        job->need.remote->send(m->link, WIRE_LAUNCH, body);
    else
        log_error(all->tag, "cannot launch: %s", err.text);
}

/* Tells the leader not to wait for the node. Repeated with each LISTENING: the leader may have missed
 * it. */
static void tell_leader(const struct follower *m)
{
    const struct job *job = m->all->job;
    if (!job->agents.link || !m->fate[0])
        return;
    json_t *body = json_make("{s:I, s:I, s:s, s:i, s:s}", "job", (json_int_t)job->core.id, "attempt",
                             (json_int_t)job->core.attempt, "nonce", job->core.nonce, "node", m->node,
                             "text", m->fate);
    if (body)
        job->need.remote->send(job->agents.link, WIRE_NODE_GONE, body);
}

void followers_endpoint(struct job *job, const json_t *endpoint)
{
    struct followers *all = job->agents.followers;
    if (!all)
        return;
    json_decref(all->endpoint);
    all->endpoint = json_deep_copy(endpoint);
    for (int i = 0; i < all->count; i++) {
        struct follower *m = &all->list[i];
        if (m->link && m->here)
            launch(m);
        tell_leader(m);
    }
}

/* ---- messages from them ---- */

/* Prefixes "node gpu2: "; most texts already start with the name. */
static void sentence(char *out, size_t size, const struct follower *m, const char *text)
{
    const bool named = strncmp(text, m->name, strlen(m->name)) == 0;
    snprintf(out, size, "node %s%s%s", named ? "" : m->name, named ? "" : ": ", text);
    err_make_printable(out);
}

static void tell(struct follower *m, const char *text)
{
    struct job *job = m->all->job;
    sentence(job_texts(job)->absent, sizeof(job->texts->absent), m, text);
    job->texts->absent_node = m->node;
    log_warn(m->all->tag, "%s", job->texts->absent);
}

static void close_link(struct follower *m)
{
    if (m->link)
        m->all->job->need.remote->close(m->link);
    m->link = NULL;
}

/* There is no agent for this node because of `text`; what: "is gone", "cannot be used". */
static void give_up(struct follower *m, const char *what, const char *text)
{
    tell(m, text);
    snprintf(m->fate, sizeof(m->fate), "%s: %.280s", what, text);
    err_make_printable(m->fate);
    tell_leader(m);
    close_link(m);
}

/* Two names for one machine: two links would compete for one agent. */
static bool is_leader(const struct follower *m, const json_t *hello)
{
    const struct attempt_row *head = m->all->job->attempt;
    const char *boot = json_string_value(json_object_get(hello, "boot_id"));
    return head->pid > 0 && boot && strcmp(boot, head->boot_id) == 0 &&
           json_integer_value(json_object_get(hello, "pid")) == head->pid &&
           json_integer_value(json_object_get(hello, "start_time")) == head->start_time;
}

static void hear(void *arg, enum wire_message number, const json_t *body)
{
    struct follower *m = arg;
    struct job *job = m->all->job;
    char text[160];
    if (number != WIRE_HELLO) { /* what matters to the job goes to the leader */
        if (m->here)
            gpu_request_hear(job, m->link, m->name, &m->gpus_asked_ms, number, body);
        return;
    }
    m->gpus_asked_ms = 0;
    if (is_leader(m, body)) {
        snprintf(text, sizeof(text), "it is the same machine as %.60s; list each machine once", job->attempt->node);
        give_up(m, "cannot be used", text);
        return;
    }
    if (!m->here)
        log_info(m->all->tag, "the agent of node %s connected, pid %lld", m->name,
                 (long long)json_integer_value(json_object_get(body, "pid")));
    m->here = true;
    if (job->texts->absent_node == m->node)
        job->texts->absent[0] = 0;
    if (job->need.remote == &remote_ssh)
        hosts_answered(job->daemon, m->name, NULL);
    if (m->all->endpoint)
        launch(m);
}

static void lost(void *arg, const char *text)
{
    struct follower *m = arg;
    m->gone = true;
    give_up(m, "is gone", text);
}

static void not_started(void *arg, enum cause cause, const char *text)
{
    struct follower *m = arg;
    (void)cause;
    m->gone = true;     /* the leader reports the host's failure as node_lost */
    give_up(m, "cannot be used", text);
}

static void vanished(void *arg, const char *text)
{
    struct follower *m = arg;
    hosts_vanished(m->all->job->daemon, m->name, text);
    tell(m, text);
    close_link(m);          /* kept for dismissal */
}

static void waiting(void *arg, const char *text)
{
    struct follower *m = arg;
    struct job *job = m->all->job;
    char line[sizeof(job->texts->absent)];
    sentence(line, sizeof(line), m, text);
    if (strcmp(line, job->texts->absent) != 0)
        tell(m, text);
}

static int64_t acked(void *arg)
{
    (void)arg;
    return 0;               /* followers spool no events */
}

/* ---- all followers ---- */

static void open_link(struct follower *m, bool may_start)
{
    struct job *job = m->all->job;
    struct err err = { 0 };
    char key[48], gpus[512], code[PATH_MAX];
    const bool sent = job->need.remote == &remote_ssh && job_code_dir(code, sizeof(code), job->daemon, job->core.id);
    remote_key(key, sizeof(key), job->daemon->instance, job->core.id);
    remote_share_gpus(gpus, sizeof(gpus), job->need.node_gpus, m->node);
    job_dir_node(m->run_dir, sizeof(m->run_dir), job->attempt->run_dir, m->node);
    mkdir(m->run_dir, 0700);    /* on failure the agent reports it */
    const struct remote_link_spec spec = { .files = job->daemon->files, .job = job->core.id,
                                           .attempt = job->core.attempt, .nonce = job->core.nonce,
                                           .run_dir = m->run_dir, .code = sent ? code : NULL, .may_start = may_start,
                                           .host = m->name, .key = key, .node = m->node, .nodes = m->all->count + 1,
                                           .gpus = gpus };
    const struct remote_link_hooks hooks = { .message = hear, .lost = lost, .acked = acked,
                                      .not_started = not_started, .vanished = vanished,
                                      .waiting = waiting, .arg = m };
    if (job->need.remote->open(&m->link, &job->daemon->loop, &spec, &hooks, &err) < 0)
        tell(m, err.text);
}

void followers_open(struct job *job, bool may_start)
{
    const size_t nodes = json_array_size(job->nodes.names);
    if (job->agents.followers || nodes < 2 || !job->core.live || !job->attempt)
        return;
    struct followers *all = calloc(1, sizeof(*all) + (nodes - 1) * sizeof(all->list[0]));
    if (!all) {
        log_error(NULL, "out of memory for the agents of %zu nodes", nodes);
        return;
    }
    all->job = job;
    all->names = json_incref(job->nodes.names);
    all->count = (int)nodes - 1;
    snprintf(all->tag, sizeof(all->tag), "%lld.%lld", (long long)job->core.id, (long long)job->core.attempt);
    job->agents.followers = all;
    for (int i = 0; i < all->count; i++) {
        struct follower *m = &all->list[i];
        m->all = all;
        m->node = i + 1;
        m->name = json_string_value(json_array_get(all->names, (size_t)m->node));
        open_link(m, may_start);
    }
}

void followers_close(struct job *job)
{
    struct followers *all = job->agents.followers;
    if (!all)
        return;
    for (int i = 0; i < all->count; i++)
        close_link(&all->list[i]);
    job->agents.followers = NULL;
    json_decref(all->names);
    json_decref(all->endpoint);
    free(all);
}

void followers_dismiss(struct job *job)
{
    struct followers *all = job->agents.followers;
    struct err err = { 0 };
    if (!all)
        return;
    for (int i = 0; i < all->count; i++) {
        struct follower *m = &all->list[i];
        close_link(m);
        if (m->gone)
            continue;
        if (job->need.remote != &remote_slurm)
            orphan_add(job->daemon, job->attempt, job->need.remote, m->node, m->name);
        else if (run_dir_fence(m->run_dir, NULL, &err) < 0) /* all nodes see it */
            log_warn(all->tag, "%s", err.text);
    }
    followers_close(job);
}
