/* SPDX-License-Identifier: Apache-2.0 */
/* requests.c - see requests.h */
#include "controller/requests/requests.h"

#include "controller/attempt/job_attempt.h"
#include "controller/base/daemon.h"
#include "controller/dashboard/dashboard.h"
#include "controller/http/request.h"
#include "controller/http/server.h"
#include "controller/job/commit_group.h"
#include "controller/job/job.h"
#include "controller/job/job_apply.h"
#include "controller/lifecycle/submit_batch.h"
#include "controller/lifecycle/sweeps.h"
#include "controller/requests/request_job.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static void apply_and_answer(struct request *r, struct job *job, const struct core_input *in)
{
    struct err err = { 0 };
    const int64_t id = job->core.id;
    if (job_apply(job, in, NULL, &err) < 0)
        request_fail(r, &err, NULL);
    else
        request_job_answer(r, 200, id);
}

static void cancel(struct request *r)
{
    struct job *job = request_job_open(r);
    if (!job)
        return;
    const char *reason = json_string_value(json_object_get(request_body(r), "reason"));
    json_t *body = json_make("{s:s, s:b, s:b}", "reason",
                             reason && reason[0] ? reason : "on request", "limit", 0, "now",
                             json_is_true(json_object_get(request_body(r), "now")));
    const struct core_input in = { .kind = CORE_STOP, .at_ms = daemon_now_ms(), .body = body };
    const int64_t sweep = job->sweep ? job->core.id : 0;
    apply_and_answer(r, job, &in);
    if (sweep && field_true(body, "now"))   /* they are stopping already */
        sweeps_stop_members(request_daemon(r), sweep, field_text(body, "reason"), true);
    json_decref(body);
}

static void hold(struct request *r)
{
    struct job *job = request_job_open(r);
    const struct core_input in = { .kind = CORE_HOLD, .at_ms = daemon_now_ms() };
    if (job)
        apply_and_answer(r, job, &in);
}

static void release(struct request *r)
{
    struct job *job = request_job_open(r);
    const struct core_input in = { .kind = CORE_RELEASE, .at_ms = daemon_now_ms() };
    if (job)
        apply_and_answer(r, job, &in);
}

static void checkpoint(struct request *r)
{
    struct job *job = request_job_open(r);
    struct err err = { 0 };
    if (!job)
        return;
    if (!job->spec.trains && !job->spec.signal_saves) {
        err_set(&err, ERR_CONFLICT, "job %lld is a `run:` command whose spec has no checkpoint_signal: add "
                "checkpoint_signal: SIGUSR1 to the spec, and save a checkpoint in the script on that signal",
                (long long)job->core.id);
        request_fail(r, &err, NULL);
        return;
    }
    if (job->core.state == JOB_RUNNING && job_attempt_checkpoint(job)) {
        request_job_answer(r, 202, job->core.id);
        return;
    }
    err_set(&err, ERR_CONFLICT, "job %lld is %s; only a running job can write a checkpoint",
            (long long)job->core.id, job_state_name(job->core.state));
    request_fail(r, &err, NULL);
}

static void show_store(struct request *r)
{
    request_answer(r, 200, json_make("{s:s}", "text", request_daemon(r)->store_state.lost));
}

static void shut_down(struct request *r)
{
    request_answer(r, 202, json_object());
    daemon_stop(request_daemon(r));
}

static void open_dashboard(struct request *r)
{
    char token[ACCESS_SECRET];
    struct err err = { 0 };
    const int64_t wish = field_int(request_body(r), "port", 0);
    int port = -1;
    if (wish < 0 || wish > 65535)
        err_set(&err, ERR_USAGE, "port: expected 1 to 65535, or 0 for any, not %lld", (long long)wish);
    else
        port = dashboard_link(token, request_daemon(r), &requests_dashboard, (int)wish,
                              field_text(request_body(r), "frame"), &err);
    if (port < 0)
        request_fail(r, &err, NULL);
    else
        request_answer(r, 200, json_make("{s:i, s:s}", "port", port, "token", token));
}

static const struct route routes[] = {
    { "GET", "/v1/version", request_version, NULL },
    { "POST", "/v1/jobs", request_submit,
      "spec:s! cwd:s! file:s set:l canonical:o hold:b dry_run:b secrets:m environment:m code:s key:s" },
    { "GET", "/v1/jobs", request_list, NULL },
    { "GET", "/v1/jobs/JOB", request_show, NULL },
    { "POST", "/v1/jobs/JOB/cancel", cancel, "reason:s now:b" },
    { "POST", "/v1/jobs/JOB/retry", request_retry, "secrets:m environment:m code:s" },
    { "POST", "/v1/jobs/JOB/hold", hold, NULL },
    { "POST", "/v1/jobs/JOB/release", release, NULL },
    { "GET", "/v1/jobs/JOB/spec", request_spec, NULL },
    { "POST", "/v1/jobs/JOB/edit", request_edit, "spec:s! canonical:o! was:s! set:l" },
    { "POST", "/v1/jobs/JOB/checkpoint", checkpoint, NULL },
    { "POST", "/v1/jobs/JOB/remove", request_remove, "checkpoints:b dry_run:b" },
    { "GET", "/v1/jobs/JOB/why", request_why, NULL },
    { "GET", "/v1/jobs/JOB/events", request_events, NULL },
    { "GET", "/v1/jobs/JOB/logs", request_logs, NULL },
    { "GET", "/v1/jobs/JOB/metrics", request_metrics, NULL },
    { "GET", "/v1/jobs/JOB/wait", request_wait, NULL },
    { "GET", "/v1/live", request_live, NULL },
    { "GET", "/v1/jobs/JOB/live", request_live_job, NULL },
    { "GET", "/v1/jobs/JOB/sample", request_sample, NULL },
    { "GET", "/v1/prune", request_prune, NULL },
    { "GET", "/v1/store", show_store, NULL },
    { "POST", "/v1/adopt", request_adopt, "dir:s! hold:b dry_run:b expect:o secrets:m environment:m" },
    { "GET", "/v1/nodes", request_nodes, NULL },
    { "POST", "/v1/nodes", request_node, "name:s! action:s! reason:s" },
    { "GET", "/metrics", request_exposition, NULL },
    { "POST", "/v1/dashboard", open_dashboard, "port:i frame:s" },
    { "GET", "/v1/notify", request_notify, NULL },
    { "POST", "/v1/notify", request_notify_test, "target:s!" },
    { "POST", "/v1/shutdown", shut_down, NULL },
    { NULL, NULL, NULL, NULL },
};

/* Commits first: an answer must not show what may still fail. */
static bool settle(struct daemon *d)
{
    commit_group_flush(d, NULL, NULL);
    return submit_batch_flush(d);
}

/* For Prometheus, by TCP: numbers and nothing else. */
static bool anybody(struct request *r)
{
    (void)r;
    return true;
}

static const struct route routes_metrics[] = {
    { "GET", "/metrics", request_exposition, NULL },
    { NULL, NULL, NULL, NULL },
};

const struct service requests_metrics = { .routes = routes_metrics, .admit = anybody, .settle = settle };

/* Many submits, one commit (submit_batch.h). */
const struct service requests = { .routes = routes, .admit = request_of_owner, .gathers = request_submit,
                                  .settle = settle };

/* The page: it reads everything, acts on existing jobs, and submits a text that was edited there. It removes
 * nothing, and hands in no secrets, code or environment. */
static const struct route routes_dashboard[] = {
    { "GET", "/", dashboard_asset, NULL },
    { "GET", "/frame", dashboard_frame, NULL },
    { "GET", "/assets/JOB", dashboard_asset, NULL },
    { "POST", "/v1/session", dashboard_session, "token:s!" },
    { "GET", "/v1/version", request_version, NULL },
    { "GET", "/v1/jobs", request_list, NULL },
    { "GET", "/v1/jobs/JOB", request_show, NULL },
    { "GET", "/v1/jobs/JOB/why", request_why, NULL },
    { "GET", "/v1/jobs/JOB/events", request_events, NULL },
    { "GET", "/v1/jobs/JOB/logs", request_logs, NULL },
    { "GET", "/v1/jobs/JOB/metrics", request_metrics, NULL },
    { "GET", "/v1/live", request_live, NULL },
    { "GET", "/v1/jobs/JOB/live", request_live_job, NULL },
    { "GET", "/v1/jobs/JOB/sample", request_sample, NULL },
    { "GET", "/v1/jobs/JOB/spec", request_spec, NULL },
    { "GET", "/v1/nodes", request_nodes, NULL },
    { "POST", "/v1/jobs", request_submit, "spec:s! cwd:s! file:s set:l dry_run:b" },
    { "POST", "/v1/jobs/JOB/cancel", cancel, "reason:s now:b" },
    { "POST", "/v1/jobs/JOB/retry", request_retry, NULL },
    { "POST", "/v1/jobs/JOB/hold", hold, NULL },
    { "POST", "/v1/jobs/JOB/release", release, NULL },
    { "POST", "/v1/jobs/JOB/checkpoint", checkpoint, NULL },
    { NULL, NULL, NULL, NULL },
};

enum { DASHBOARD_BODY = 64 * 1024, DASHBOARD_CONNECTIONS = 64 };

const struct service requests_dashboard = { .routes = routes_dashboard, .admit = dashboard_admit,
                                            .permit = dashboard_permit, .body_max = DASHBOARD_BODY,
                                            .connections = DASHBOARD_CONNECTIONS, .settle = settle };
