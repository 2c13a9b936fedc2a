/* SPDX-License-Identifier: Apache-2.0 */
/* follower.c - see follower.h */
#include "agent/nodes/follower.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/doctor/consistency.h"
#include "agent/doctor/doctor.h"
#include "agent/doctor/reachability.h"
#include "agent/monitor/inspector.h"
#include "agent/monitor/nccl_watch.h"
#include "agent/nodes/follower_internal.h"
#include "agent/nodes/leader.h"
#include "agent/os/log.h"
#include "agent/ranks/cleanup.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/snapshot_memfds.h"
#include "agent/wire/leader_wire.h"
#include "engine/contract/err.h"

enum {
    LOOK_MS = 200,
    END_TICK_MS = 20,
    END_MS = 5000,       /* after SIGTERM; then SIGKILL */
    STOP_MORE_MS = 60000 /* beyond the grace: time for the leader to clean up and say so */
};

static int64_t now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

static int64_t int_of(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(body, key));
}

static const char *string_of(const json_t *body, const char *key)
{
    return json_string_value(json_object_get(body, key));
}

/* --- leaving ------------------------------------------------------------------------------- */

static void on_end_tick(uv_timer_t *timer)
{
    struct follower *m = timer->data;
    if (ranks_living(m->ranks) > 0 && now_ms() - m->end_since_ms < END_MS)
        return;
    uv_timer_stop(&m->end);
    m->cleaning = 0;
    cleanup_run(m->cleanup, 0);
}

/* Ends all ranks and leaves the attempt. */
static void end(struct follower *m, const char *why)
{
    if (m->ending || m->closed)
        return;
    log_info(m->o.tag, "%s: this node leaves the attempt", why);
    m->ending = true;
    m->end_since_ms = now_ms();
    uv_timer_stop(&m->pages);
    ranks_signal(m->ranks, SIGTERM);
    uv_timer_start(&m->end, on_end_tick, 0, END_TICK_MS);
}

static void on_grace_over(uv_timer_t *timer)
{
    end(timer->data, "stopped by the controller, without a reply from the leader");
}

void follower_stop(struct follower *m, const char *reason, int64_t grace_ms, bool preempted)
{
    if (m->ending || m->closed)
        return;
    log_info(m->o.tag, "asked to stop: %s", reason);
    if (preempted)
        follower_say(m, NODE_NOTICE, json_pack("{s:s, s:I}", "reason", reason, "grace_ms",
                                               (json_int_t)grace_ms));
    if (!m->prepared || !node_channel_is_up(m->link))
        end(m, "no connection to the leader");
    else if (!uv_is_active((const uv_handle_t *)&m->end))
        uv_timer_start(&m->end, on_grace_over, (uint64_t)grace_ms + STOP_MORE_MS, 0);
}

/* --- cleanup -------------------------------------------------------------------------------- */

static void on_reap(uv_timer_t *timer)
{
    struct follower *m = timer->data;
    cleanup_run(m->cleanup, m->cleaning);
}

/* The exit of each rank is reported before "cleaned": after that no message of the generation
 * follows. */
static void on_swept(void *arg, bool clean, const char *left)
{
    struct follower *m = arg;
    if (clean && ranks_living(m->ranks) > 0) {
        uv_timer_start(&m->reap, on_reap, END_TICK_MS, 0);
        return;
    }
    if (!clean)
        log_warn(m->o.tag, "these processes survived SIGKILL: %s", left);
    if (m->ending) {
        m->left = true;
        m->over(m->arg);
        return;
    }
    follower_say(m, NODE_CLEANED, json_pack("{s:i, s:b, s:o}", "generation", m->cleaning, "clean",
                                            clean, "left", follower_text(left)));
}

static void clean_up(struct follower *m, const json_t *body)
{
    m->cleaning = (int)int_of(body, "generation");
    cleanup_run(m->cleanup, m->cleaning);
}

/* --- preparing ------------------------------------------------------------------------------ */

/* The leader has written a file to the checkpoint directory: is it visible on this node? */
static int find_proof(const json_t *proof, struct err *err)
{
    char found[256] = "";
    const char *path = string_of(proof, "path"), *text = string_of(proof, "text");
    if (!proof || !path || !text)
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, found, sizeof(found) - 1) : -1;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (n >= 0 && strcmp(found, text) == 0)
        return 0;
    const char *slash = strrchr(path, '/');
    return err_set(err, ERR_USAGE,
                   "checkpoint.dir '%.*s' is not the directory that the first node uses%s%s: "
                   "with several nodes it must be on a shared file system",
                   (int)(slash ? slash - path : 0), path, n < 0 ? ": " : "",
                   n < 0 ? strerror(why) : "");
}

/* Do data and programs equal those of the first node? */
static int compare_files(const json_t *consistency, const json_t *spec, struct err *err)
{
    const json_t *names = json_object_get(consistency, "names");
    const char *head = json_string_value(json_array_get(names, 0));
    const char *self = json_string_value(json_array_get(names, 1));
    json_t *list = consistency_list(spec);
    int rc = consistency_compare(json_object_get(consistency, "list"), list, head ? head
                                 : "the first node",
                                 self ? self : "this one", err);
    json_decref(list);
    return rc;
}

/* Names a node that cannot be reached, as a sentence; "" if all can. */
static void try_reach_others(const json_t *endpoints, char *out, size_t size)
{
    size_t i;
    const json_t *way;
    json_t *reached = json_array_size(endpoints) > 0 ? reachability_at(endpoints) : NULL;
    out[0] = '\0';
    json_array_foreach(reached, i, way)
    {
        if (out[0] || !json_object_get(way, "error"))
            continue;
        snprintf(out, size, "no connection to %s: %s; allow TCP between the nodes on all ports",
                 string_of(way, "host"), string_of(way, "error"));
    }
    json_decref(reached);
}

/* Engine ranks all connect to each other; those of a command may not need to. */
static int try_ways(const json_t *endpoints, const json_t *spec, json_t **preflight, struct err *err)
{
    char text[400];
    try_reach_others(endpoints, text, sizeof(text));
    if (!text[0])
        return 0;
    if (json_object_get(spec, "train"))
        return err_set(err, ERR_SYSTEM, "%s", text);
    json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "check", "routes", "status", "warn", "seen",
                            text, "todo", "check firewalls and routes");
    if (*preflight)
        json_array_append_new(json_object_get(*preflight, "rows"), row);
    else
        *preflight = json_pack("{s:s, s:[o]}", "text", text, "rows", row);
    return 0;
}

/* Every check that can refuse a launch before a process is started. */
static int prepare(struct follower *m, json_t **preflight, struct err *err)
{
    int rc;
    const json_t *spec = json_object_get(m->prepare, "spec");
    const json_t *launch = json_object_get(m->prepare, "launch");
    const char *dir = string_of(launch, "ckpt_dir");
    if (find_proof(json_object_get(launch, "proof"), err) < 0 ||
        compare_files(json_object_get(launch, "consistency"), spec, err) < 0 ||
        payload_make(&m->payload, spec, m->o.run_dir, m->o.train, err) < 0)
        return -1;
    *preflight = doctor_preflight(&rc, m->o.train, m->o.facts, spec,
                                  dir && dir[0] ? dir : m->o.run_dir, NULL, err);
    if (rc == 0)
        rc = try_ways(json_object_get(launch, "endpoints"), spec, preflight, err);
    if (!m->nccl_watch)
        m->nccl_watch = nccl_watch_create(json_object_get(m->prepare, "plan"), m->o.facts);
    m->has_watch = json_array_size(json_object_get(spec, "watch")) > 0 ||
                   json_object_size(json_object_get(spec, "watch")) > 0;
    ranks_set_job(m->ranks, &(struct ranks_job){.snapshots = json_object_get(spec, "train") != NULL,
                                                .run_dir = m->o.run_dir,
                                                .workdir = m->payload.workdir,
                                                .argv = m->payload.argv,
                                                .setup_argv = m->payload.setup_argv});
    return rc;
}

/* A failure to watch the GPUs does not prevent training. */
static void watch_gpus(struct follower *m)
{
    struct err err = {0};
    if (gpu_watch_start(&m->gpu_watch, m->loop, json_object_get(m->prepare, "plan"), m->o.facts,
                        m->o.nonce, follower_report_gpu, m, &err) < 0)
        log_warn(m->o.tag, "%s", err.text);
}

static void on_prepare(struct follower *m, const json_t *body)
{
    struct err err = {0};
    json_t *preflight = NULL;
    if (m->prepare)
        return;
    m->prepare = json_deep_copy(body);
    int rc = m->prepare ? prepare(m, &preflight, &err)
                        : err_set(&err, ERR_MEMORY, "no memory for the launch");
    m->prepared = rc == 0;
    if (rc == 0)
        watch_gpus(m);
    if (rc < 0)
        log_error(m->o.tag, "%s", err.text);
    json_t *answer = json_pack("{s:o}", "text", follower_text(rc < 0 ? err.text : NULL));
    if (preflight)
        json_object_set_new(answer, "preflight", preflight);
    follower_say(m, NODE_PREPARED, answer);
}

/* --- starting -------------------------------------------------------------------------------- */

static int start(struct follower *m, const json_t *body, int *n, struct err *err)
{
    const json_t *launch = json_object_get(m->prepare, "launch");
    struct launch_env e = {
        .job = m->o.job,
        .attempt = m->o.attempt,
        .generation = (int)int_of(body, "generation"),
        .name = string_of(launch, "name"),
        .nonce = m->o.nonce,
        .run_dir = m->o.run_dir,
        .ckpt_dir = string_of(launch, "ckpt_dir"),
        .world_size = (int)int_of(body, "world_size"),
        .first_rank = (int)int_of(body, "first_rank"),
        .local_ranks = (int)int_of(body, "ranks"),
        .node_rank = m->node,
        .nodes = m->nodes,
        .node_ranks = string_of(body, "node_ranks"),
        .node_addr = string_of(body, "node_addr"),
        .master_addr = string_of(body, "master_addr"),
        .master_port = (int)int_of(body, "master_port"),
        .restarts = int_of(body, "restarts"),
        .resume_step = int_of(body, "resume_step"),
        .skip_step = int_of(body, "skip_step"),
        .from = (int)int_of(body, "from"),
        .snapshot_step = int_of(body, "snapshot_step"),
        .rejoin = json_is_true(json_object_get(body, "rejoin")),
        .keep = json_is_true(json_object_get(body, "keep")),
        .deadline_s = int_of(body, "deadline_s"),
        .plan = json_object_get(m->prepare, "plan"),
        .fallbacks = (int)int_of(body, "fallbacks"),
        .secrets = json_object_get(launch, "secrets"),
    };
    *n = e.generation ? e.local_ranks : 1;
    if (!m->prepared || !e.name || !e.ckpt_dir)
        return err_set(err, ERR_BUG, "SPAWN without PREPARE");
    if (e.local_ranks < 1 || e.local_ranks > FOLLOWER_RANKS)
        return err_set(err, ERR_USAGE, "%d ranks on one node; at most %d", e.local_ranks,
                       FOLLOWER_RANKS);
    if (e.generation == 0 && !m->payload.setup_argv[0])
        return err_set(err, ERR_BUG, "this job has no setup");
    m->generation = e.generation;
    follower_forget_reported(m, e.generation ? e.local_ranks : 0);
    nccl_watch_begin(m->nccl_watch);
    reachability_close(); /* all nodes have tested */
    return ranks_start(m->ranks, &e, m->pids, err);
}

static void on_spawn(struct follower *m, const json_t *body)
{
    struct err err = {0};
    int n = 0;
    int rc = start(m, body, &n, &err);
    json_t *pids = json_array();
    for (int i = 0; rc == 0 && i < n; i++)
        json_array_append_new(pids, json_integer(m->pids[i]));
    if (rc < 0)
        log_error(m->o.tag, "%s", err.text);
    follower_say(m, NODE_SPAWNED,
                 json_pack("{s:I, s:o, s:o}", "generation", (json_int_t)int_of(body, "generation"),
                           "pids", pids, "text", follower_text(rc < 0 ? err.text : NULL)));
}

static void on_ask_snapshots(struct follower *m, const json_t *body)
{
    struct snapshot_memfds_claim claims[SNAPSHOT_MEMFDS_SETS];
    const int n = ranks_claims(m->ranks, claims);
    json_t *sets = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(sets, json_pack("[i, I]", claims[i].generation,
                                              (json_int_t)claims[i].step));
    follower_say(m, NODE_SNAPSHOTS, json_pack("{s:I, s:o}", "generation",
                                              (json_int_t)int_of(body,
                                                                 "generation"), "sets", sets));
}

/* --- messages from the leader ------------------------------------------------------------------ */

static void on_inspect(struct follower *m, const json_t *body)
{
    int generation = (int)int_of(body, "generation");
    int fd = open(m->inspect_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    int64_t *pids = ranks_workers(m->ranks, -1);
    inspector_begin(m->inspector, generation, json_pack("{s:s}", "path", m->inspect_path), pids,
                    pids ? ranks_count(m->ranks) : 0);
    free(pids);
}

static void on_message(void *arg, const struct wire_row *row, const json_t *body)
{
    struct follower *m = arg;
    if (m->ending)
        return;
    switch ((int)row->number) {
    case NODE_PREPARE:
        on_prepare(m, body);
        break;
    case NODE_ASK_SNAPSHOTS:
        on_ask_snapshots(m, body);
        break;
    case NODE_SPAWN:
        on_spawn(m, body);
        break;
    case NODE_CONTROL:
        ranks_control(m->ranks, string_of(body, "command"));
        break;
    case NODE_SIGNAL:
        ranks_signal(m->ranks, (int)int_of(body, "signo"));
        break;
    case NODE_CLEANUP:
        clean_up(m, body);
        break;
    case NODE_DELIVER:
        if (int_of(body, "generation") == m->generation)
            ranks_broadcast(m->ranks, json_object_get(body, "line"));
        break;
    case NODE_INSPECT:
        on_inspect(m, body);
        break;
    case NODE_SHUTDOWN:
        end(m, "the attempt is over");
        break;
    default:
        break;
    }
}

/* The leader may have lost messages that are not repeated: send everything again. */
static void on_up(void *arg)
{
    struct follower *m = arg;
    follower_forget_reported(m, m->n_reported);
}

static void on_lost(void *arg, const char *text)
{
    char why[400];
    snprintf(why, sizeof(why), "the leader %s", text);
    end(arg, why);
}

static void on_look(uv_timer_t *timer)
{
    struct follower *m = timer->data;
    json_t *ways = nccl_watch_look(m->nccl_watch, now_ms());
    follower_look(m);
    if (ways)
        follower_say(m, NODE_NCCL,
                     json_pack("{s:i, s:o}", "generation", m->generation, "body", ways));
}

/* --- creation and release -------------------------------------------------------------------------- */

static int open_parts(struct follower *m, const json_t *group, struct err *err)
{
    struct ranks_hooks ranks_hooks = follower_ranks_hooks;
    const struct node_channel_hooks link_hooks = {on_up, on_message, on_lost, m};
    const struct node_channel_call call = {.id = {m->o.job, m->o.attempt, m->o.nonce},
                                           .node = m->node,
                                           .endpoint = json_object_get(group, "endpoint"),
                                           .join_ms = LEADER_JOIN_MS};
    ranks_hooks.arg = m;
    if ((size_t)snprintf(m->inspect_path, sizeof(m->inspect_path), "%s/inspect.txt",
                         m->o.run_dir) >= sizeof(m->inspect_path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    if (ranks_create(&m->ranks, m->loop, &ranks_hooks, err) < 0 ||
        cleanup_create(&m->cleanup, m->loop, m->o.nonce, on_swept, m, err) < 0 ||
        inspector_create(&m->inspector, m->loop, follower_inspected, m, err) < 0)
        return -1;
    cleanup_set_run_dir(m->cleanup, m->o.run_dir);
    return node_channel_dial(&m->link, m->loop, &call, &link_hooks, err);
}

int follower_open(struct follower **out, uv_loop_t *loop, const struct follower_options *o,
                  follower_over_fn over, void *arg, struct err *err)
{
    const json_t *group = json_object_get(o->launch, "group");
    struct follower *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(err, ERR_MEMORY, "no memory for a follower");
    m->o = *o;
    m->loop = loop;
    m->over = over;
    m->arg = arg;
    m->node = (int)int_of(group, "node");
    m->nodes = (int)int_of(group, "nodes");
    uv_timer_init(loop, &m->pages);
    uv_timer_init(loop, &m->end);
    uv_timer_init(loop, &m->reap);
    m->pages.data = m->end.data = m->reap.data = m;
    *out = m;
    if (open_parts(m, group, err) < 0)
        return -1;
    follower_join(m); /* kept until the leader has connected */
    uv_timer_start(&m->pages, on_look, LOOK_MS, LOOK_MS);
    log_info(m->o.tag, "node %d of %d connects to the leader", m->node, m->nodes);
    return 0;
}

void follower_close(struct follower *m)
{
    if (!m || m->closed)
        return;
    m->closed = true;
    node_channel_close(m->link);
    if (m->ranks)
        ranks_close(m->ranks);
    cleanup_close(m->cleanup);
    inspector_close(m->inspector);
    gpu_watch_close(m->gpu_watch);
    uv_close((uv_handle_t *)&m->pages, NULL);
    uv_close((uv_handle_t *)&m->end, NULL);
    uv_close((uv_handle_t *)&m->reap, NULL);
}

void follower_destroy(struct follower *m)
{
    if (!m)
        return;
    ranks_destroy(m->ranks);
    cleanup_destroy(m->cleanup);
    inspector_destroy(m->inspector);
    nccl_watch_destroy(m->nccl_watch);
    gpu_watch_destroy(m->gpu_watch);
    free(m->reported);
    json_decref(m->prepare);
    free(m);
}
