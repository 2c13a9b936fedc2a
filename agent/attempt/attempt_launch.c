/* SPDX-License-Identifier: Apache-2.0 */
/* attempt_launch.c - from LAUNCH to the start of the core: lease, commands, plan, watch, mirror
 *
 * attempt_take_launch() -> attempt_claim() -> begin_attempt() [-> GPU self-test] -> attempt_ready(); with several
 * nodes attempt_nodes.c comes between the last two. attempt_refuse() ends it from anywhere. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/attempt/attempt_internal.h"
#include "agent/attempt/machine_wait.h"
#include "agent/attempt/monitor.h"
#include "agent/attempt/session.h"
#include "agent/core/redact.h"
#include "agent/mirror/mirror_child.h"
#include "agent/monitor/gpu_watch.h"
#include "agent/monitor/nccl_watch.h"
#include "agent/nodes/follower.h"
#include "agent/nodes/leader.h"
#include "agent/os/lease_keeper.h"
#include "agent/os/log.h"
#include "agent/plan/gpu_selftest.h"
#include "agent/plan/gpu_selftest_child.h"
#include "agent/plan/plan.h"
#include "agent/plan/probe_cache.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static void on_trouble(void *arg, const struct monitor_trouble *t)
{
    struct agent_input in = {.kind = INPUT_HANG,
                             .hang = {.generation = t->generation,
                                      .rank = t->rank,
                                      .init = t->init,
                                      .value = t->value,
                                      .text = t->text}};
    attempt_feed(arg, &in);
}

static void on_warning(void *arg, const char *text)
{
    attempt_store(arg, "warning", json_make("{s:n, s:s}", "rank", "text", text), false);
}

static void on_progress(void *arg, int generation, const json_t *line)
{
    struct agent_input in = {.kind = INPUT_PROGRESS,
                             .jitter = attempt_jitter(),
                             .progress = {.generation = generation, .rank = 0, .line = line}};
    attempt_feed(arg, &in);
}

static void on_slow(void *arg, json_t *body)
{
    struct attempt *a = arg;
    if (body)
        attempt_store(a, "straggler", body, false);
}

/* Reported at once; a broken GPU ends the generation, because its ranks may wait forever. */
static void tell_gpu(struct attempt *a, const struct gpu_event *e, const char *text)
{
    struct agent_input in = {.kind = INPUT_HANG,
                             .hang = {.rank = e->rank, .fault = e->line, .text = text}};
    attempt_store(a, "gpu_event", json_make("{s:s, s:s, s:i, s:b}", "text", text, "gpu", e->uuid,
                                            "xid", e->xid, "fault", (int)e->fault), false);
    if (e->fault)
        attempt_feed(a, &in);
}

void attempt_on_gpu(void *arg, int node, const struct gpu_event *e)
{
    struct attempt *a = arg;
    char text[400];
    snprintf(text, sizeof(text), "%s: %s", leader_name(a->leader, node), e->text);
    tell_gpu(a, e, node > 0 ? text : e->text);
}

/* Problems are reported before anything starts. */
static int prepare(struct attempt *a, struct err *err)
{
    json_t *preflight = NULL;
    int rc = follower_prepare(a->follower, json_object_get(a->launch, "spec"), a->launch, &preflight, err);
    if (preflight)
        attempt_store(a, "preflight", preflight, false);
    return rc;
}

/* On a machine other than the controller's, "hosted/KEY/checkpoints" is relative to the state
 * directory in which this run directory is hosted/KEY/ATTEMPT (agent/attempt/attach.h). */
static int settle_checkpoints(struct attempt *a, struct err *err)
{
    json_t *checkpoint = json_object_get(json_object_get(a->launch, "spec"), "checkpoint");
    const char *dir = json_string_value(json_object_get(checkpoint, "dir"));
    if (!dir || strncmp(dir, "hosted/", 7) != 0)
        return 0;
    const char *end = a->o.run_dir + strlen(a->o.run_dir);
    for (int up = 0; up < 3 && end > a->o.run_dir; up += *end == '/')
        end--;
    json_t *path = json_text_f("%.*s/%s", (int)(end - a->o.run_dir), a->o.run_dir, dir);
    if (!path || json_object_set(checkpoint, "dir", path) < 0 ||
        json_object_set_new(a->launch, "ckpt_dir", path) < 0)
        return err_set(err, ERR_MEMORY, "no memory for the launch");
    return 0;
}

static int plan_anew(struct attempt *a, const json_t *spec, struct err *err)
{
    json_decref(a->plan);
    a->plan = NULL;
    return plan_make(&a->plan, a->facts, spec, err);
}

/* The state directory that contains jobs/JOB/ATTEMPT or hosted/KEY/ATTEMPT; else the run
 * directory. */
static const char *state_dir(struct attempt *a)
{
    const char *part = "";
    char *out = a->state_dir;
    snprintf(out, sizeof(a->state_dir), "%s", a->o.run_dir);
    for (int up = 0; up < 3 && strrchr(out, '/') > out; up++) {
        part = strrchr(out, '/') + 1;
        out[part - out - 1] = '\0';
    }
    return strcmp(part, "jobs") == 0 || strcmp(part, "hosted") == 0 ? out : a->o.run_dir;
}

bool attempt_is_waiting(const struct attempt *a)
{
    struct agent_view v;
    agent_core_view(a->core, &v);
    return v.phase == AGENT_IDLE;
}

/* Everything that can refuse a launch before other nodes are involved. */
static void conclude(struct attempt *a, int rc, struct err *err)
{
    if (rc == 0)
        rc = prepare(a, err);
    attempt_store(a, "facts", json_incref(a->facts), false); /* including self-test results */
    const json_t *names = json_object_get(json_object_get(a->launch, "group"), "names");
    if (rc < 0 && err->code == ERR_NO_DEVICE)
        attempt_note_few(a, json_string_value(json_array_get(names, 0)), a->facts);
    if (rc < 0)
        attempt_refuse_plan(a, err);
    else
        a->planned(a);
}

/* Makes a new plan if the self-test contradicts the expectations of the first. */
static void on_tried(void *arg, const json_t *pairs, const char *why)
{
    struct attempt *a = arg;
    struct err err = {0};
    if (!attempt_is_waiting(a))
        return;
    if (why)
        on_warning(a, why);
    if (pairs) {
        json_object_set(a->facts, "pairs", (json_t *)(uintptr_t)pairs);
        probe_cache_keep(a->facts, state_dir(a));
    }
    conclude(a, plan_anew(a, json_object_get(a->launch, "spec"), &err), &err);
}

void attempt_plan(struct attempt *a)
{
    const json_t *spec = json_object_get(a->launch, "spec");
    struct err err = {0};
    int rc = settle_checkpoints(a, &err) < 0 ? -1 : plan_make(&a->plan, a->facts, spec, &err);
    if (rc == 0 && gpu_selftest_wanted(a->facts, a->plan)) {
        if (gpu_selftest_child_start(&a->gpu_selftest, &a->loop, a->facts, spec, a->o.nonce, on_tried, a, &err) == 0)
            return; /* continues in on_tried() */
        on_warning(a, err.text);
        err = (struct err){0};
    }
    conclude(a, rc, &err);
}

/* --- the lease of GPUs and CPU slots ------------------------------------------------------- */

static bool on_machine_waits(void *arg)
{
    return attempt_is_waiting(arg);
}

static void on_machine_tells(void *arg, bool over, int64_t waited_ms, const char *text)
{
    struct attempt *a = arg;
    attempt_store(a, "lease",
                  json_make("{s:b, s:I, s:s}", "over", (int)over, "waited_ms", (json_int_t)waited_ms, "text", text),
                  false);
}

static void on_machine_ready(void *arg)
{
    struct attempt *a = arg;
    follower_set_hold(a->follower, a->o.bundle.hold);
    attempt_plan(a);
}

struct machine_wait_job attempt_machine_job(struct attempt *a)
{
    return (struct machine_wait_job){.job = a->o.job, .tag = a->tag, .run_dir = a->o.run_dir, .state = state_dir(a),
                                     .bundle = &a->o.bundle, .launch = a->launch, .facts = a->facts};
}

static void take_machine(struct attempt *a)
{
    const struct machine_wait_job job = attempt_machine_job(a);
    const struct machine_wait_hooks hooks = {on_machine_waits, on_machine_tells, on_machine_ready, a};
    char dir[PATH_MAX];
    const bool several = field_int(json_object_get(a->launch, "group"), "nodes", 1) > 1;
    if (several && machine_wait_dir(&job, dir, sizeof(dir))) {
        a->lease_nodes(a);
        return;
    }
    a->machine = several ? NULL : machine_wait_open(&a->loop, &job, &hooks);
    if (a->machine)
        machine_wait_look(a->machine);
    else
        attempt_plan(a);
}

/* Prepares the commands and the plan of this node, after a GPU self-test if one is needed;
 * stores the facts. Then calls `planned`, at once or from the loop, or refuses the launch. */
static void begin_attempt(struct attempt *a, void (*planned)(struct attempt *a))
{
    a->planned = planned;
    probe_cache_recall(a->facts, state_dir(a));
    take_machine(a);
}

/* The placement of ranks, and their monitor. */
static int place_ranks(struct attempt *a, struct err *err)
{
    if (leader_place(a->leader, a->plan, err) < 0)
        return -1;
    return monitor_create(&a->monitor, &a->loop, a->leader, a->plan,
                          json_object_get(a->launch, "spec"), json_object_get(a->launch, "learned"),
                          &(struct monitor_hooks){.trouble = on_trouble,
                                                  .warning = on_warning,
                                                  .progress = on_progress,
                                                  .slow = on_slow,
                                                  .arg = a},
                          err);
}

static int64_t launch_int(const json_t *launch, const char *object, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(launch, object), key));
}

/* Both NULL, or the reason why ranks must not start. */
static void feed_launch(struct attempt *a, const char *refusal, enum cause cause, const struct agent_lost *missing)
{
    const json_t *body = a->launch;
    const char *fingerprint = json_string_value(json_object_get(json_object_get(body, "history"), "fingerprint"));
    a->restarts = launch_int(body, "budget", "restarts");
    struct agent_input in = {
        .kind = INPUT_LAUNCH,
        .launch = {.np = (int)json_integer_value(json_object_get(a->plan, "np")),
                   .engine = json_is_true(json_object_get(a->plan, "engine")),
                   .has_setup = follower_has_setup(a->follower),
                   .container = json_object_get(a->plan, "container"),
                   .has_fetch = follower_has_fetch(a->follower),
                   .rejoin = attempt_may_rejoin(a),
                   .refusal = refusal,
                   .cause = cause,
                   .missing = missing,
                   .budget = {a->restarts, launch_int(body, "budget", "backoff_min_ms"),
                              launch_int(body, "budget", "backoff_max_ms"),
                              launch_int(body, "budget", "no_progress"), launch_int(body, "budget", "same_line"),
                              launch_int(body, "budget", "same_line_ms"), launch_int(body, "budget", "early_ms")},
                   .history = {launch_int(body, "history", "failures_without_progress"),
                               launch_int(body, "history", "same_fingerprint"),
                               launch_int(body, "history", "last_step"), fingerprint,
                               (int)launch_int(body, "learned", "fallbacks")},
                   .plan = a->plan,
                   .facts = a->all_facts ? a->all_facts : a->facts}};
    attempt_feed(a, &in);
}

/* --- the mirror ------------------------------------------------------------------------- */

static void on_mirror_ready(void *arg, const char *refusal)
{
    feed_launch(arg, refusal, CAUSE_NONE, NULL);
}

static void on_mirror_event(void *arg, const char *kind, json_t *body)
{
    struct attempt *a = arg;
    attempt_store(a, kind, body, false);
}

static void on_mirror_lost(void *arg, const char *text)
{
    struct agent_input in = {.kind = INPUT_STOP, .stop.reason = text, .jitter = attempt_jitter()};
    attempt_feed(arg, &in);
}

static void on_mirror_ended(void *arg)
{
    attempt_cleanup(arg);
}

static int start_mirror(struct attempt *a, struct err *err)
{
    const char *host = json_string_value(json_object_get(a->facts, "hostname"));
    json_t *task = mirror_child_task(a->launch, host ? host : "");
    if (!task)
        return 0;
    const struct mirror_hooks hooks = {on_mirror_ready, on_mirror_event, on_mirror_lost,
                                       on_mirror_ended, a};
    int rc = mirror_child_start(&a->mirror, &a->loop, a->o.run_dir, a->o.nonce, task, &hooks, err);
    json_decref(task);
    return rc;
}

/* --- the lease -------------------------------------------------------------------------- */

/* The directory of one job: RUN_DIR/.. contains it, here and on a host (agent/attempt/attach.h). */
static bool is_own(const struct attempt *a, const char *dir)
{
    const char *slash = strrchr(a->o.run_dir, '/');
    const size_t n = slash ? (size_t)(slash - a->o.run_dir) : 0;
    return dir[0] != '/' || (n > 0 && strncmp(dir, a->o.run_dir, n) == 0 && dir[n] == '/');
}

/* The cause with which a refusal ends the attempt; CAUSE_NONE: the job runs without a lease, as in a read-only
 * directory. */
static enum cause refusal_cause(const struct err *err)
{
    if (err->code == ERR_CONFLICT)
        return CAUSE_DIR_IN_USE;
    if (err->code != ERR_SYSTEM)
        return CAUSE_CONFIG_ERROR;
    const int code = exit_code_of(err);
    return code == EXIT_DISK_FULL ? CAUSE_DISK_FULL
           : code == EXIT_IO      ? CAUSE_IO_ERROR
           : code == EXIT_LIMIT   ? CAUSE_RESOURCE_LIMIT : CAUSE_NONE;
}

static void on_lease_ready(void *arg, const struct err *refusal)
{
    struct attempt *a = arg;
    const enum cause cause = refusal ? refusal_cause(refusal) : CAUSE_NONE;
    if (!attempt_is_waiting(a))
        return;
    if (refusal && cause == CAUSE_NONE)
        on_warning(a, refusal->text);
    follower_set_fence(a->follower, lease_keeper_fence(a->lease));
    if (cause == CAUSE_NONE)
        begin_attempt(a, a->planned);
    else
        feed_launch(a, refusal->text, cause, NULL);
}

static void on_lease_lost(void *arg, const char *text)
{
    struct agent_input in = {.kind = INPUT_NODE_LOST,
                             .jitter = attempt_jitter(),
                             .lost = {.lease = true, .node = -1, .name = "", .text = text, .first_rank = -1}};
    attempt_feed(arg, &in);
}

/* The home of the controller, from the path of the job's directory, HOME/jobs/ID. */
static int home_length(const char *job_dir)
{
    const char *end = job_dir + strlen(job_dir);
    for (int up = 0; up < 2 && end > job_dir; up += *end == '/')
        end--;
    return (int)(end - job_dir);
}

void attempt_claim(struct attempt *a, void (*planned)(struct attempt *a))
{
    struct err err = {0};
    char home[LEASE_HOME];
    const json_t *checkpoint = json_object_get(json_object_get(a->launch, "spec"), "checkpoint");
    const char *dir = field_text(a->launch, "ckpt_dir"), *job_dir = field_text(a->launch, "job_dir");
    const struct lease_taker by = {.origin = field_text(checkpoint, "origin"),
                                   .name = field_text(a->launch, "name"),
                                   .home = home,
                                   .job = a->o.job};
    const struct lease_keeper_hooks hooks = {on_lease_ready, on_warning, on_lease_lost, attempt_on_lease_ended, a};
    a->planned = planned;
    snprintf(home, sizeof(home), "%.*s", home_length(job_dir), job_dir);
    if (is_own(a, dir))
        begin_attempt(a, planned);
    else if (lease_keeper_start(&a->lease, &a->loop, dir, &by, &hooks, &err) < 0)
        attempt_refuse(a, err.text, NULL);
}

/* --- end of the machine ------------------------------------------------------------------- */

int64_t attempt_now_s(const struct attempt *a)
{
    return (a->began.wall_ms + clock_boot_ms() - a->began.boot_ms) / 1000;
}

static void on_deadline(uv_timer_t *timer)
{
    struct attempt *a = timer->data;
    char text[DEADLINE_TIMER_TEXT];
    struct agent_input in = {.kind = INPUT_CHECKPOINT};
    attempt_store(a, "deadline",
                  json_make("{s:s, s:I}", "text",
                            deadline_timer_text(text, a->deadline_node[0] ? a->deadline_node : NULL,
                                                a->deadline_s, attempt_now_s(a)),
                            "ends_at_s", (json_int_t)a->deadline_s), false);
    attempt_feed(a, &in);
    attempt_watch_deadline(a);
}

void attempt_watch_deadline(struct attempt *a)
{
    const int64_t now = attempt_now_s(a), next = deadline_timer_next(a->deadline_s, now);
    if (next > 0 && !a->leaving)
        uv_timer_start(&a->deadline_timer, on_deadline, (uint64_t)(next - now) * 1000, 0);
}

/* --- LAUNCH -------------------------------------------------------------------------------- */

/* From now on the identity file and HELLO name the job of this attempt, if they did not before. */
static void note_origin(struct attempt *a)
{
    struct err err = {0};
    const json_t *checkpoint = json_object_get(json_object_get(a->launch, "spec"), "checkpoint");
    const char *origin = field_text(checkpoint, "origin");
    if (strcmp(a->identity.origin, origin) == 0)
        return;
    snprintf(a->identity.origin, sizeof(a->identity.origin), "%s", origin);
    if (a->identity.origin[0] && identity_write(&a->identity, a->o.run_dir, &err) < 0)
        log_warn(a->tag, "%s", err.text);
}

int attempt_take_launch(struct attempt *a, const json_t *body, struct err *err)
{
    a->launch = json_deep_copy(body);
    if (!a->launch || redact_add_all(a->redact, json_object_get(body, "secrets")) < 0)
        return err_set(err, ERR_MEMORY, "no memory for the launch");
    session_set_launched(a->session);
    note_origin(a);
    if (attempt_take_environment(a, err) < 0)
        return -1;
    if (json_object_get(a->launch, "excluded"))
        json_object_set(a->facts, "excluded", json_object_get(a->launch, "excluded"));
    json_t *place = nccl_watch_place(a->o.run_dir);
    if (place)
        json_object_set_new(a->facts, "nccl_log", place);
    if (launch_int(a->launch, "group", "node") > 0)
        return 0; /* the leader plans for all nodes */
    a->deadline_s = deadline_timer_of(a->facts, attempt_now_s(a));
    attempt_watch_deadline(a);
    return 0;
}

void attempt_refuse(struct attempt *a, const char *refusal, const struct agent_lost *missing)
{
    feed_launch(a, refusal, CAUSE_NONE, missing);
}

void attempt_note_few(struct attempt *a, const char *node, const json_t *facts)
{
    char text[300];
    const char *slurm = getenv("SLURMD_NODENAME");
    const int usable = plan_usable_gpus(text, sizeof(text), facts, json_object_get(a->launch, "spec"));
    json_decref(a->few);
    a->few = json_make("{s:s, s:i, s:s*}", "few", text, "usable", usable, "node", node ? node : slurm);
}

void attempt_refuse_plan(struct attempt *a, const struct err *why)
{
    feed_launch(a, why->text, a->few ? CAUSE_TOO_FEW_GPUS : CAUSE_NONE, NULL);
}

void attempt_ready(struct attempt *a)
{
    struct err err = {0};
    int rc = place_ranks(a, &err);
    if (rc == 0) {
        attempt_store(a, "plan", json_incref(a->plan), false);
        follower_set_plan(a->follower, a->part ? a->part : a->plan);
    }
    if (rc == 0)
        rc = start_mirror(a, &err);
    if (rc < 0 || !a->mirror)
        feed_launch(a, rc < 0 ? err.text : NULL, CAUSE_NONE, NULL);
}
