/* SPDX-License-Identifier: Apache-2.0 */
/* follower.c - see follower.h */
#include "agent/code/code_place.h"
#include "agent/nodes/follower.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/container_job.h"
#include "agent/container/container_words.h"
#include "agent/core/hang_rules.h"
#include "agent/doctor/consistency.h"
#include "agent/doctor/doctor.h"
#include "agent/doctor/reachability.h"
#include "agent/monitor/inspector.h"
#include "agent/monitor/nccl_watch.h"
#include "agent/monitor/usage.h"
#include "agent/nodes/follower_internal.h"
#include "agent/os/log.h"
#include "agent/os/process.h"
#include "engine/base/signal_number.h"
#include "agent/probe/gpu_numbers.h"
#include "agent/ranks/cleanup.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/snapshot_memfds.h"
#include "agent/wire/leader_wire.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/flight.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

enum { NCCL_MS = 1000, REAP_MS = 20 };

static const char *string_of(const json_t *body, const char *key)
{
    return json_string_value(json_object_get(body, key));
}

/* --- preparing ------------------------------------------------------------------------------ */

/* The leader has written a file to the checkpoint directory: is it visible on this node? */
static int find_proof(const json_t *proof, struct err *err)
{
    char found[256] = "";
    const char *path = string_of(proof, "path"), *text = string_of(proof, "text");
    if (!proof || !path || !text)
        return 0;
    int fd = safe_open(path, O_RDONLY, NULL);
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
    if (!consistency) /* this is the first node */
        return 0;
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
    json_t *row = json_make("{s:s, s:s, s:s, s:s}", "check", "routes", "status", "warn", "seen",
                            text, "todo", "check firewalls and routes");
    if (*preflight)
        json_array_append_new(json_object_get(*preflight, "rows"), row);
    else
        *preflight = json_make("{s:s, s:[o]}", "text", text, "rows", row);
    return 0;
}

/* A script may save where JOBCTL_CKPT_DIR points without making the directory. The engine makes its own, and has
 * causes for what fails there. */
static int make_checkpoints(const json_t *spec, const char *dir, struct err *err)
{
    struct err why = {0};
    if (!dir || !dir[0] || access(dir, F_OK) == 0 || scratch_mkdirs(dir, &why) == 0 ||
        !json_is_string(json_object_get(spec, "run")))
        return 0;
    return err_set(err, why.code, "cannot make the directory of checkpoints: %s; make it, or name another one in "
                                  "checkpoint.dir", why.text);
}

int follower_prepare(struct follower *f, json_t *spec, json_t *launch, json_t **preflight, struct err *err)
{
    int rc;
    const char *dir = string_of(launch, "ckpt_dir");
    f->spec = json_incref(spec);
    if (code_place_settle(spec, json_object_get(launch, "code"), f->o.run_dir, err) < 0 ||
        find_proof(json_object_get(launch, "proof"), err) < 0 ||
        compare_files(json_object_get(launch, "consistency"), spec, err) < 0 ||
        payload_make(&f->payload, spec, f->o.run_dir, f->o.train, err) < 0)
        return -1;
    *preflight = doctor_preflight(&rc, f->o.train, f->o.facts, spec, dir && dir[0] ? dir : f->o.run_dir,
                                  json_object_get(launch, "history"), err);
    if (rc < 0 || try_ways(json_object_get(launch, "endpoints"), spec, preflight, err) < 0 ||
        make_checkpoints(spec, dir, err) < 0)
        return -1;
    const bool command = json_is_string(json_object_get(spec, "run"));
    const char *stop = string_of(spec, "stop_signal"), *to = string_of(spec, "stop_to");
    const int save = signal_number(string_of(spec, "checkpoint_signal"), 0);
    ranks_set_job(f->ranks, &(struct ranks_job){.hold = f->hold,
                                                .snapshots = json_object_get(spec, "train") != NULL,
                                                .stop_signal = command ? signal_number(stop, SIGTERM) : 0,
                                                .stop_session = to && strcmp(to, "session") == 0,
                                                .checkpoint_signal = save,
                                                .run_dir = f->o.run_dir,
                                                .workdir = f->payload.workdir,
                                                .argv = f->payload.argv,
                                                .setup_argv = f->payload.setup_argv,
                                                .fetch_argv = f->payload.fetch_argv});
    f->launch = json_incref(launch);
    return 0;
}

bool follower_has_setup(const struct follower *f)
{
    return f->payload.setup_argv[0] != NULL;
}

bool follower_has_fetch(const struct follower *f)
{
    return f->payload.fetch_argv[0] != NULL;
}

void follower_set_environment(struct follower *f, char *const *base)
{
    f->base = base;
}

void follower_set_fence(struct follower *f, const char *fence)
{
    snprintf(f->fence, sizeof(f->fence), "%s", fence);
}

void follower_set_hold(struct follower *f, int hold)
{
    f->hold = hold;
}

/* A failure to watch the GPUs does not prevent training. */
void follower_set_plan(struct follower *f, json_t *plan)
{
    struct err err = {0};
    f->plan = json_incref(plan);
    f->nccl_watch = nccl_watch_create(plan, f->o.facts);
    if (f->nccl_watch)
        uv_timer_start(&f->look, follower_report_nccl, NCCL_MS, NCCL_MS);
    if (gpu_watch_start(&f->gpu_watch, f->loop, plan, f->o.facts, f->o.nonce, follower_report_gpu, f, &err) < 0)
        log_warn(f->o.tag, "%s", err.text);
}

static void on_prepare(struct follower *f, const json_t *body)
{
    struct err err = {0};
    json_t *preflight = NULL;
    if (f->spec)
        return;
    int rc = follower_prepare(f, json_object_get(body, "spec"), json_object_get(body, "launch"), &preflight, &err);
    if (rc == 0)
        follower_set_plan(f, json_object_get(body, "plan"));
    else
        log_error(f->o.tag, "%s", err.text);
    follower_say(f, NODE_PREPARED,
                 json_make("{s:o, s:o*}", "text", follower_text(rc < 0 ? err.text : NULL),
                           "preflight", preflight));
}

/* --- the lease of its machine ----------------------------------------------------------------- */

void follower_set_lease(struct follower *f, follower_lease_fn lease, void *arg)
{
    f->lease = lease;
    f->lease_arg = arg;
}

void follower_tell_lease(struct follower *f, int round, bool holds, const char *text, json_t *gpus)
{
    follower_say(f, NODE_LEASED, json_make("{s:i, s:b, s:o, s:o*}", "round", round, "holds", (int)holds, "text",
                                           follower_text(text), "gpus", gpus));
}

static void on_lease(struct follower *f, const json_t *body)
{
    const int round = (int)field_int(body, "round", 0);
    if (f->lease)
        f->lease(f->lease_arg, round, (int)field_int(body, "nodes", 0));
    else if (field_int(body, "nodes", 0) > 0)
        follower_tell_lease(f, round, true, NULL, NULL);
}

/* --- starting -------------------------------------------------------------------------------- */

/* The containers of the job on this node, by the plan: once, before the first process. */
static int make_container(struct follower *f, struct err *err)
{
    const struct container_place place = {.spec = f->spec, .plan = f->plan, .run_dir = f->o.run_dir,
                                          .ckpt_dir = string_of(f->launch, "ckpt_dir"), .nonce = f->o.nonce,
                                          .job = f->o.job, .attempt = f->o.attempt, .node = f->node};
    if (f->container || !json_object_get(f->plan, "container"))
        return 0;
    if (container_job_create(&f->container, &place, err) < 0)
        return -1;
    container_job_remove(f->container, f->node == 0, &f->sweep);
    cleanup_set_sweep(f->cleanup, f->sweep.n ? container_words_end(&f->sweep) : NULL);
    ranks_set_container(f->ranks, f->container);
    return 0;
}

static int start(struct follower *f, const json_t *body, int *n, struct err *err)
{
    const json_t *launch = f->launch;
    struct hang_rules rules;
    struct launch_env e = {
        .job = f->o.job,
        .attempt = f->o.attempt,
        .generation = (int)field_int(body, "generation", 0),
        .name = string_of(launch, "name"),
        .nonce = f->o.nonce,
        .run_dir = f->o.run_dir,
        .ckpt_dir = string_of(launch, "ckpt_dir"),
        .workdir = field_text(json_object_get(launch, "code"), "workdir"),
        .world_size = (int)field_int(body, "world_size", 0),
        .first_rank = (int)field_int(body, "first_rank", 0),
        .local_ranks = (int)field_int(body, "ranks", 0),
        .node_rank = f->node,
        .nodes = f->nodes,
        .node_ranks = string_of(body, "node_ranks"),
        .node_addr = string_of(body, "node_addr"),
        .master_addr = string_of(body, "master_addr"),
        .master_port = (int)field_int(body, "master_port", 0),
        .restarts = field_int(body, "restarts", 0),
        .resume_step = field_int(body, "resume_step", 0),
        .skip_step = field_int(body, "skip_step", 0),
        .from = (int)field_int(body, "from", 0),
        .snapshot_step = field_int(body, "snapshot_step", 0),
        .rejoin = field_true(body, "rejoin"),
        .keep = field_true(body, "keep"),
        .pull = field_true(body, "pull"),
        .fetch = field_true(body, "fetch"),
        .deadline_s = field_int(body, "deadline_s", 0),
        .plan = f->plan,
        .gpus_moved = !gpu_numbers_hold(json_object_get(f->plan, "ranks")),
        .fallbacks = (int)field_int(body, "fallbacks", 0),
        .fence = f->fence,
        .secrets = json_object_get(launch, "secrets"),
        .base = f->base,
    };
    *n = e.generation ? e.local_ranks : 1;
    if (!f->plan || !e.name || !e.ckpt_dir)
        return err_set(err, ERR_BUG, "SPAWN without PREPARE");
    if (e.local_ranks < 1 || e.local_ranks > FOLLOWER_RANKS)
        return err_set(err, ERR_USAGE, "%d ranks on one node; at most %d", e.local_ranks, FOLLOWER_RANKS);
    if (make_container(f, err) < 0)
        return -1;
    if (e.generation == 0 && !e.pull && !(e.fetch ? f->payload.fetch_argv : f->payload.setup_argv)[0])
        return err_set(err, ERR_BUG, "this job has no setup");
    if (payload_renew(&f->payload, f->spec, err) < 0)
        return -1;
    f->generation = e.generation;
    cleanup_forget(f->cleanup);
    nccl_watch_begin(f->nccl_watch);
    reachability_close(); /* all nodes have tested */
    hang_rules_read(&rules, f->spec, json_is_true(json_object_get(f->plan, "engine")));
    usage_begin(f->usage, hang_rules_window_ms(&rules), e.master_addr);
    return ranks_start(f->ranks, &e, f->pids, err);
}

static void on_spawn(struct follower *f, const json_t *body)
{
    struct err err = {0};
    int n = 0;
    int rc = start(f, body, &n, &err);
    json_t *pids = json_array();
    for (int i = 0; rc == 0 && i < n; i++)
        json_array_append_new(pids, json_integer(f->pids[i]));
    if (rc < 0)
        log_error(f->o.tag, "%s", err.text);
    follower_say(f, NODE_SPAWNED,
                 json_make("{s:I, s:o, s:o}", "generation", (json_int_t)field_int(body, "generation", 0),
                           "pids", pids, "text", follower_text(rc < 0 ? err.text : NULL)));
}

static void on_ask_snapshots(struct follower *f, const json_t *body)
{
    struct snapshot_memfds_claim claims[SNAPSHOT_MEMFDS_SETS];
    const int n = ranks_claims(f->ranks, claims);
    json_t *sets = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(sets, json_make("[i, I]", claims[i].generation, (json_int_t)claims[i].step));
    follower_say(f, NODE_SNAPSHOTS,
                 json_make("{s:I, s:o}", "generation", (json_int_t)field_int(body, "generation", 0),
                           "sets", sets));
}

/* --- ending ---------------------------------------------------------------------------------- */

static void on_reap(uv_timer_t *timer)
{
    struct follower *f = timer->data;
    cleanup_run(f->cleanup, f->cleaning);
}

/* The exit of each rank is reported before "cleaned": after that no message of the generation
 * follows. */
static void on_cleaned(void *arg, bool clean, const char *left)
{
    struct follower *f = arg;
    if (clean && ranks_living(f->ranks) > 0) {
        uv_timer_start(&f->reap, on_reap, REAP_MS, 0);
        return;
    }
    if (!clean)
        log_warn(f->o.tag, "these processes survived SIGKILL: %s", left);
    follower_say(f, NODE_CLEANED, json_make("{s:i, s:b, s:o}", "generation", f->cleaning, "clean",
                                            clean, "left", follower_text(left)));
}

static void on_cleanup(struct follower *f, const json_t *body)
{
    f->cleaning = (int)field_int(body, "generation", 0);
    cleanup_run(f->cleanup, f->cleaning);
}

/* --- messages of the leader ------------------------------------------------------------------ */

/* The leader in this process names the file of its report, and the rank to begin with. */
static void on_inspect(struct follower *f, const json_t *body)
{
    const char *path = string_of(body, "path");
    int fd = path ? -1 : safe_open(f->inspect_path, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    if (fd >= 0)
        close(fd);
    int64_t *pids = ranks_workers(f->ranks, (int)field_int(body, "rank", -1));
    inspector_begin(f->inspector, (int)field_int(body, "generation", 0),
                    json_make("{s:s}", "path", path ? path : f->inspect_path), pids,
                    pids ? ranks_count(f->ranks) : 0);
    free(pids);
}

static void on_control(struct follower *f, const json_t *body)
{
    ranks_control(f->ranks, field_text(body, "command"));
}

static void on_signal(struct follower *f, const json_t *body)
{
    ranks_signal(f->ranks, (int)field_int(body, "signo", 0));
}

static void on_deliver(struct follower *f, const json_t *body)
{
    if (field_int(body, "generation", 0) == f->generation)
        ranks_broadcast(f->ranks, json_object_get(body, "line"));
}

void follower_receive(struct follower *f, enum wire_message number, const json_t *body)
{
    static const struct {
        enum wire_message number;
        void (*receive)(struct follower *f, const json_t *body);
    } rows[] = {
        {NODE_PREPARE, on_prepare}, {NODE_ASK_SNAPSHOTS, on_ask_snapshots},
        {NODE_SPAWN, on_spawn},     {NODE_CONTROL, on_control},
        {NODE_SIGNAL, on_signal},   {NODE_DELIVER, on_deliver},
        {NODE_INSPECT, on_inspect}, {NODE_CLEANUP, on_cleanup},
        {NODE_LEASE, on_lease},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].number == number)
            rows[i].receive(f, body);
}

/* --- inspection ------------------------------------------------------------------------------ */

const struct follower_options *follower_options(const struct follower *f)
{
    return &f->o;
}

const struct ranks *follower_ranks(const struct follower *f)
{
    return f->ranks;
}

int64_t follower_look(const struct follower *f, int rank, struct flight_page *page, char *state,
                      struct activity_sample *use)
{
    int64_t pid = ranks_look(f->ranks, rank, page);
    /* A command's page is written by a child of its shell. */
    int64_t worker = page->pid ? (int64_t)page->pid : pid;
    if (state)
        *state = pid > 0 ? process_state(worker) : (char)0;
    if (use) {
        usage_get(f->usage, rank, use);
        gpu_watch_add_use(f->gpu_watch, rank, use);
    }
    return pid;
}

/* --- creation and release -------------------------------------------------------------------- */

int follower_create(struct follower **out, uv_loop_t *loop, const struct follower_options *o, struct err *err)
{
    struct follower *f = calloc(1, sizeof(*f));
    struct ranks_hooks hooks = follower_ranks_hooks;
    if (!f)
        return err_set(err, ERR_MEMORY, "no memory for a follower");
    f->o = *o;
    f->loop = loop;
    hooks.arg = f;
    if ((size_t)snprintf(f->inspect_path, sizeof(f->inspect_path), "%s/inspect.txt", o->run_dir) >=
        sizeof(f->inspect_path)) {
        free(f);
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    }
    if (ranks_create(&f->ranks, loop, &hooks, err) < 0 ||
        usage_create(&f->usage, f->ranks, err) < 0 ||
        cleanup_create(&f->cleanup, loop, o->nonce, on_cleaned, f, err) < 0 ||
        inspector_create(&f->inspector, loop, follower_report_stacks, f, err) < 0) {
        follower_destroy(f); /* only at process exit: the loop never runs */
        return -1;
    }
    uv_timer_init(loop, &f->look);
    uv_timer_init(loop, &f->reap);
    f->look.data = f->reap.data = f;
    *out = f;
    return 0;
}

/* Other nodes may be simulated on this machine: the first one cleans up after all of them, some of whose agents may
 * be older than its own. */
void follower_set_place(struct follower *f, int node, int nodes)
{
    f->node = node;
    f->nodes = nodes;
    cleanup_set_run_dir(f->cleanup, node > 0 ? f->o.run_dir : NULL);
    cleanup_set_since(f->cleanup, node > 0 || nodes == 1 ? f->o.since : 0, f->o.first);
}

void follower_set_hooks(struct follower *f, const struct follower_hooks *hooks)
{
    f->hooks = *hooks;
}

void follower_close(struct follower *f)
{
    if (!f || f->closed)
        return;
    f->closed = true;
    ranks_close(f->ranks);
    cleanup_close(f->cleanup);
    inspector_close(f->inspector);
    gpu_watch_close(f->gpu_watch);
    uv_close((uv_handle_t *)&f->look, NULL);
    uv_close((uv_handle_t *)&f->reap, NULL);
}

void follower_destroy(struct follower *f)
{
    if (!f)
        return;
    ranks_destroy(f->ranks);
    cleanup_destroy(f->cleanup);
    inspector_destroy(f->inspector);
    usage_destroy(f->usage);
    nccl_watch_destroy(f->nccl_watch);
    gpu_watch_destroy(f->gpu_watch);
    container_job_destroy(f->container);
    container_words_fini(&f->sweep);
    json_decref(f->spec);
    json_decref(f->launch);
    json_decref(f->plan);
    free(f);
}
