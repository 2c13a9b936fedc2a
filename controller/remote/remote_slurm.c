/* SPDX-License-Identifier: Apache-2.0 */
/* remote_slurm.c - launch: slurm: attempts in allocations of Slurm
 *
 *   look     which allocation has this attempt's comment (controller/remote/sbatch.h)?
 *     none, and may_start    -> submit, with other members of its sweep as one array (slurm_array.h); a comment is
 *                               submitted only once
 *     pending                -> report why, look again
 *     running                -> connect to the agent by TLS or files, once it has written its name
 *                               into the run directory (agent_channel.h); keep looking while it
 *                               is connected
 *     over, or unknown       -> bury: fence, wait for the agent's lock, read the spool to its
 *                               end, lost
 *
 * With several nodes the link of node 0 does this; the links of the others only connect to their
 * agents, which end with the allocation; a released lock proves that one died.
 *
 * A stop before there is an agent waits for Slurm for STOP_MS at most: the fence ends what Slurm may still start.
 * What Slurm refuses for good (slurm_refusal.h), and where it has no configuration, no retry helps.
 *
 * Slurm's answers count for its queue, not for the agent: a connected agent lives even if slurmctld
 * has forgotten the job, and while slurmctld is down nothing is concluded.  A lost node may keep
 * computing; there the fence ends the ranks (agent/os/run_dir.h).
 */
#include "controller/remote/remote.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/identity.h"
#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "controller/remote/agent_channel.h"
#include "controller/remote/remote_link.h"
#include "controller/remote/sbatch.h"
#include "controller/remote/slurm_array.h"
#include "controller/remote/slurm_client.h"
#include "controller/remote/slurm_job.h"
#include "controller/remote/slurm_refusal.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/contract/install.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum {
    LOOK_MS = 300,              /* until its agent connects */
    LOOK_SELDOM_MS = 3000,      /* from then on, and while Slurm is down */
    PAUSE_MAX_MS = 30 * 1000,
    LAST_WORDS_MS = 5000,       /* for the last messages of an agent whose allocation is over */
    LOCK_MS = 90 * 1000,        /* for an agent on a lost node to find the fence */
    STOP_MS = 10 * 1000,        /* for Slurm to end what it may have of a stopped attempt without an agent */
    KILL_MS = 30 * 1000,        /* beyond the grace of a stop, then scancel */
    WORDS = 240
};

struct slurm {
    struct remote_link   base;
    struct agent_channel channel;
    bool                 follower; /* node 0's link manages the allocation */
    int                  nodes, least;
    int64_t              save_ms;
    char                 avoid[1024];
    bool                 spoke;       /* the agent has sent a message in this session */
    bool                 lock_tells;  /* its lock was seen held while it was connected */
    bool                 asked;       /* to submit: an allocation may exist */
    bool                 submitted;   /* or found: an allocation exists or existed */
    bool                 stop;
    bool                 settled;     /* base.text is the final reason, whatever Slurm reports */
    uint64_t             pause_ms;    /* before it is submitted again to a Slurm that takes no job now */
    uint64_t             kill_at, give_up_at; /* with stop */
    uint64_t             over_since, bury_until;
    int64_t              cancelled;   /* the Slurm job for which scancel was sent */
    char                 comment[SBATCH_COMMENT];
    struct slurm_array_member array;  /* its place in an array of its sweep */
};

static struct slurm *slurm_of(struct remote_link *base)
{
    return (struct slurm *)base;
}

static void look(struct remote_link *base);
static void bury(struct remote_link *base);

__attribute__((format(printf, 2, 3))) static void wait_for(struct slurm *link, const char *fmt, ...)
{
    char text[WORDS];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (link->base.hooks.waiting && !link->spoke && !link->base.unreadable[0])
        link->base.hooks.waiting(link->base.hooks.arg, text);
}

/* ---- the session ---- */

static void channel_text(struct remote_link *base, enum wire_message number, const json_t *body)
{
    struct slurm *link = slurm_of(base);
    link->spoke = true;
    if (number == WIRE_HELLO) {
        link->lock_tells = run_dir_held(base->run_dir) == 1;
    }
    base->hooks.message(base->hooks.arg, number, body);
}

static void hung_up(struct remote_link *base)
{
    slurm_of(base)->spoke = false;
    remote_link_later(base, LOOK_MS, look);
}

/* ---- the end of an attempt ---- */

/* Fence and lock lie on the file system that all nodes share: a thread waits for it. */
struct bury_task {
    struct remote_link_task base;
    char                    run_dir[PATH_MAX], text[sizeof(((struct remote_link *)0)->text)];
    bool                    fence;
    struct err              unfenced, err;  /* err: of the lock */
};

static void bury_work(struct file_task *task)
{
    struct bury_task *t = (struct bury_task *)task;
    if (t->fence)
        run_dir_fence(t->run_dir, t->text, &t->unfenced);
    const int lock = run_dir_lock(t->run_dir, &t->err);
    if (lock >= 0)
        close(lock);
}

static void bury_destroy(struct file_task *task)
{
    free(task);
}

static void bury_then(struct remote_link *base, struct remote_link_task *task)
{
    const struct slurm *link = slurm_of(base);
    const struct bury_task *t = (const struct bury_task *)task;
    if (t->unfenced.code)
        log_warn(base->tag, "%s", t->unfenced.text);
    if (t->err.code == ERR_CONFLICT && uv_now(base->loop) < link->bury_until) {
        remote_link_later(base, LOOK_MS, bury); /* it will find the fence */
        return;
    }
    if (t->err.code)
        log_warn(base->tag, "cannot prove that its agent is dead: %s", t->err.text);
    remote_link_read_spool(base);
}

static void bury(struct remote_link *base)
{
    struct slurm *link = slurm_of(base);
    struct bury_task *t = calloc(1, sizeof(*t));
    slurm_array_leave(&link->array);
    remote_link_hang_up(&link->base);
    agent_channel_close(&link->channel); /* and must not connect any more */
    link->spoke = false;
    if (!t) {
        log_error(base->tag, "out of memory to end an attempt");
        remote_link_later(base, LOOK_SELDOM_MS, bury);
        return;
    }
    t->base = (struct remote_link_task){ { .work = bury_work, .destroy = bury_destroy }, bury_then };
    t->fence = !link->bury_until;
    if (t->fence)
        link->bury_until = uv_now(base->loop) + LOCK_MS;
    snprintf(t->run_dir, sizeof(t->run_dir), "%s", base->run_dir);
    snprintf(t->text, sizeof(t->text), "%s", base->text);
    remote_link_access(base, &t->base, "ending an attempt");
}

/* ---- submitting ---- */

static json_t *read_spec(const struct slurm *link, struct err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/../spec.json", link->base.run_dir);
    return safe_open_json(path, 0, err);
}

/* There is no allocation of it. */
static void on_refused(struct slurm *link, const json_t *answer)
{
    char text[sizeof(link->base.text)];
    json_t *spec = read_spec(link, NULL);
    slurm_refusal_text(text, sizeof(text), answer, spec);
    json_decref(spec);
    if (slurm_refusal_passes((int)field_safe_int(answer, "number", 0))) {
        link->asked = false;
        link->pause_ms = !link->pause_ms ? LOOK_SELDOM_MS : link->pause_ms < PAUSE_MAX_MS / 2 ? 2 * link->pause_ms : PAUSE_MAX_MS;
        wait_for(link, "%.180s; next try in %llu s", text, (unsigned long long)link->pause_ms / 1000);
        remote_link_later(&link->base, link->pause_ms, look);
        return;
    }
    snprintf(link->base.text, sizeof(link->base.text), "%s", text);
    link->base.cause = CAUSE_SLURM_REFUSED;
    remote_link_later(&link->base, 0, bury);
}

static void on_submitted(void *arg, const json_t *answer)
{
    struct slurm *link = arg;
    if (json_is_true(json_object_get(answer, "ok"))) {
        link->submitted = true;
        log_info(link->base.tag, "Slurm job %lld%s", (long long)json_integer_value(json_object_get(answer, "job")),
                 json_is_true(json_object_get(answer, "found")) ? " already existed" : "");
        remote_link_later(&link->base, 0, look);
    } else if (json_is_true(json_object_get(answer, "unconfigured"))) {
        link->asked = false;
        remote_link_later(&link->base, 0, look);
    } else if (json_is_true(json_object_get(answer, "away"))) {
        wait_for(link, "Slurm does not answer (%s); trying again", field_text(answer, "error"));
        /* the submit may have succeeded: look first */
        remote_link_later(&link->base, LOOK_SELDOM_MS, look);
    } else {
        on_refused(link, answer);
    }
}

static int submit_alone(struct slurm *link, const struct sbatch *s, json_t *secrets, struct err *err)
{
    char *script = sbatch_render(s, err);
    if (!script)
        return -1;
    link->asked = true;
    slurm_client_ask(json_make("{s:s, s:s, s:O*}", "op", "submit", "script", script, "without",
                               secrets), on_submitted, link);
    free(script);
    return 0;
}

/* Members of a sweep go together. */
static void submit(struct slurm *link)
{
    struct err err = { 0 };
    json_t *spec = read_spec(link, &err), *secrets = spec ? sbatch_hidden(spec) : NULL;
    char agent[PATH_MAX];
    install_path(agent, sizeof(agent), "jobctl-agent");
    const struct sbatch s = { .spec = spec, .job = link->base.job, .attempt = link->base.attempt,
                              .nonce = link->base.nonce, .run_dir = link->base.run_dir, .agent = agent,
                              .nodes = link->nodes, .least = link->least,
                              .save_ms = link->save_ms, .avoid = link->avoid };
    int rc = spec ? 0 : -1;
    if (rc == 0 && link->array.of.sweep > 0)
        rc = slurm_array_join(&link->array, &s, secrets, &err);
    else if (rc == 0)
        rc = submit_alone(link, &s, secrets, &err);
    if (rc < 0) {
        snprintf(link->base.text, sizeof(link->base.text), "cannot submit it to Slurm: %.350s", err.text);
        remote_link_later(&link->base, 0, bury);
    }
    json_decref(secrets);
    json_decref(spec);
}

static struct slurm *slurm_of_member(struct slurm_array_member *m)
{
    return slurm_of(m->link);
}

static void array_told(struct slurm_array_member *m, enum slurm_array_end how, const json_t *answer)
{
    struct slurm *link = slurm_of_member(m);
    if (how == SLURM_ARRAY_ASKED) {
        link->asked = true;
    } else if (how == SLURM_ARRAY_ANSWERED) {
        on_submitted(link, answer);
    } else {
        m->of.sweep = 0;
        link->asked = false;
        remote_link_later(&link->base, 0, look);
    }
}

static void array_waits(struct slurm_array_member *m, const char *text)
{
    wait_for(slurm_of_member(m), "%s", text);
}

/* Also finds the array of an earlier daemon, which may have been submitted. */
static void open_array(struct slurm *link, const struct remote_array *of)
{
    struct slurm_array_member *m = &link->array;
    m->link = &link->base;
    m->of = *of;
    m->tell = array_told;
    m->wait = array_waits;
    if (of->sweep <= 0 || link->follower)
        return;
    snprintf(m->sweep_dir, sizeof(m->sweep_dir), "%s", of->dir);
    m->of.dir = m->sweep_dir;
    link->asked = slurm_array_recall(m);
}

/* ---- look ---- */

#define NUMBER(link, job) slurm_job_number((char[SLURM_JOB_NUMBER]){ 0 }, job, (link)->array.task)

static void on_cancelled(void *arg, const json_t *answer)
{
    struct slurm *link = arg;
    if (!json_is_true(json_object_get(answer, "ok")))
        link->cancelled = 0;    /* sent again at the next look */
    remote_link_later(&link->base, LOOK_MS, look);
}

static void cancel(struct slurm *link, const json_t *job)
{
    int64_t number = json_integer_value(json_object_get(job, "job"));
    if (link->cancelled == number) {
        remote_link_later(&link->base, LOOK_MS, look);
        return;
    }
    link->cancelled = number;
    log_info(link->base.tag, "cancelling Slurm job %s", NUMBER(link, job));
    slurm_client_ask(json_make("{s:s, s:I, s:O, s:o*}", "op", "cancel", "job", (json_int_t)number,
                               "comment", json_object_get(job, "comment"), "task",
                               slurm_job_is_task(job) ? json_integer(link->array.task) : NULL), on_cancelled, link);
}

static void tell_end(struct slurm *link, const json_t *job)
{
    if (!link->settled)
        link->base.cause = slurm_job_end(link->base.text, sizeof(link->base.text), job, link->array.task,
                                         link->base.run_dir) ? CAUSE_DISK_FULL : CAUSE_NONE;
}

/* Slurm ended the job or no longer knows it; receive the agent's last messages first. */
static void over(struct slurm *link)
{
    uint64_t now = uv_now(link->base.loop);
    if (!link->over_since)
        link->over_since = now;
    if (link->base.stream && now - link->over_since < LAST_WORDS_MS)
        remote_link_later(&link->base, LOOK_MS, look);
    else
        bury(&link->base);
}

/* An agent of this attempt has existed. */
static bool agent_known(const struct slurm *link)
{
    struct identity who;
    return identity_read(&who, link->base.run_dir, NULL) == 0 && strcmp(who.nonce, link->base.nonce) == 0;
}

static void absent(struct slurm *link)
{
    if (link->spoke) {
        remote_link_later(&link->base, LOOK_SELDOM_MS, look); /* unknown to Slurm, but alive */
        return;
    }
    if (link->settled) {
        over(link);
    } else if (agent_known(link) || link->submitted) {
        snprintf(link->base.text, sizeof(link->base.text), "Slurm no longer knows attempt %lld",
                 (long long)link->base.attempt);
        over(link);
    } else if (link->base.may_start && !link->stop && !run_dir_fenced(link->base.run_dir)) {
        submit(link);
    } else {
        snprintf(link->base.text, sizeof(link->base.text), "attempt %lld was never submitted to Slurm",
                 (long long)link->base.attempt);
        bury(&link->base);
    }
}

/* An agent holds its lock as long as it lives. If the lock was visible from here while the agent
 * was connected, a free lock proves its death; on a file system without shared locks nothing
 * does. */
static bool has_died(const struct slurm *link)
{
    return link->lock_tells && !link->spoke && agent_known(link) &&
           run_dir_held(link->base.run_dir) == 0;
}

static void running(struct slurm *link, const json_t *job)
{
    /* The other nodes would wait for their leader, and Slurm for them. */
    if (link->nodes > 1 && !link->settled && has_died(link)) {
        snprintf(link->base.text, sizeof(link->base.text), "the agent of its first node died; see "
                 "%.200s/slurm.log", link->base.run_dir);
        link->settled = true;
    }
    if (link->settled || (link->stop && uv_now(link->base.loop) > link->kill_at)) {
        cancel(link, job);
        return;
    }
    wait_for(link, "Slurm job %s has %s; its agent is starting", NUMBER(link, job), field_text(job, "nodes"));
    remote_link_later(&link->base, link->stop || !link->spoke ? LOOK_MS : LOOK_SELDOM_MS, look);
}

/* ---- requeued ----
 *
 * A site policy or an administrator may requeue a job despite --no-requeue. A second run must be a
 * new attempt started by jobctl, so the requeued job is cancelled. */

static void hear_nothing(void *arg, const json_t *answer)
{
    (void)arg;
    (void)answer;
}

static void end_requeued(const json_t *jobs)
{
    size_t i;
    const json_t *job;
    json_array_foreach (jobs, i, job)
        if (slurm_job_requeued(job))
            slurm_client_ask(json_make("{s:s, s:O, s:O, s:O*}", "op", "cancel", "job",
                                       json_object_get(job, "job"), "comment",
                                       json_object_get(job, "comment"), "task", json_object_get(job, "task")),
                             hear_nothing, NULL);
}

static void give_up_requeued(struct slurm *link, const json_t *job)
{
    struct err err = { 0 };
    if (!link->settled) {
        const char *number = NUMBER(link, job);
        snprintf(link->base.text, sizeof(link->base.text), "Slurm stopped job %s to run it again (requeued)", number);
        log_warn(link->base.tag, "Slurm job %s was requeued: cancelling it", number);
        if (run_dir_fence(link->base.run_dir, link->base.text, &err) < 0)
            log_warn(link->base.tag, "%s", err.text);
    }
    link->settled = true;
    remote_link_later(&link->base, LOOK_MS, look);
}

/* Of several jobs with our comment, the live one: an agent permits no second one. */
static const json_t *choose(const struct slurm *link, const json_t *jobs)
{
    const json_t *found = NULL, *job;
    for (size_t i = 0; (job = json_array_get(jobs, i)); i++) {
        if (strcmp(field_text(job, "comment"), link->comment) != 0 && !slurm_array_is(&link->array, job))
            continue;
        if (!found || strcmp(field_text(found, "phase"), "ended") == 0)
            found = job;
    }
    return found;
}

/* ---- without an answer ---- */

/* Neither an agent nor an allocation of it can exist. */
static bool never_began(const struct slurm *link)
{
    return link->base.may_start && !link->asked && !link->submitted && !agent_known(link);
}

/* A stopped attempt is over, whether Slurm answers or not. */
static bool gives_up(const struct slurm *link)
{
    return link->stop && !agent_known(link) && (never_began(link) || uv_now(link->base.loop) >= link->give_up_at);
}

static void give_up_stopped(struct remote_link *base)
{
    struct slurm *link = slurm_of(base);
    slurm_client_forget(link);
    if (!link->settled)
        snprintf(base->text, sizeof(base->text), "%s",
                 never_began(link) ? "it was never submitted to Slurm"
                                   : "Slurm does not answer; processes that it still starts for this attempt end at "
                 "once");
    bury(base);
}

static void unanswered(struct slurm *link, const json_t *answer)
{
    const char *why = field_text(answer, "error");
    if (gives_up(link)) {
        give_up_stopped(&link->base);
    } else if (json_is_true(json_object_get(answer, "unconfigured")) && never_began(link)) {
        snprintf(link->base.text, sizeof(link->base.text), "launch: slurm is not possible here: %.300s", why);
        link->base.cause = CAUSE_CONFIG_ERROR;
        link->settled = true;
        bury(&link->base);
    } else {
        wait_for(link, "Slurm does not answer (%s); trying again", why);
        remote_link_later(&link->base, link->stop ? LOOK_MS : LOOK_SELDOM_MS, look);
    }
}

static void on_jobs(void *arg, const json_t *answer)
{
    struct slurm *link = arg;
    if (!json_is_true(json_object_get(answer, "ok"))) {
        unanswered(link, answer);
        return;
    }
    end_requeued(json_object_get(answer, "jobs"));
    const json_t *job = choose(link, json_object_get(answer, "jobs"));
    const char *phase = field_text(job, "phase");
    if (!job) {
        absent(link);
        return;
    }
    link->submitted = true;
    if (slurm_job_requeued(job)) {
        give_up_requeued(link, job);
    } else if (strcmp(phase, "pending") == 0 && link->stop) {
        cancel(link, job);
    } else if (strcmp(phase, "pending") == 0) {
        wait_for(link, "Slurm job %s is pending: %s", NUMBER(link, job),
                 field_text(job, "reason")[0] ? field_text(job, "reason") : "just submitted");
        remote_link_later(&link->base, LOOK_MS, look);
    } else if (strcmp(phase, "running") == 0) {
        running(link, job);
    } else if (strcmp(phase, "ending") == 0) {
        remote_link_later(&link->base, LOOK_MS, look);
    } else {
        tell_end(link, job);
        over(link);
    }
}

/* Connect at once to an agent that already exists: this needs no slurmctld. */
static void look(struct remote_link *base)
{
    struct slurm *link = slurm_of(base);
    if (agent_known(link))
        agent_channel_look(&link->channel);
    if (link->follower && has_died(link)) {
        snprintf(base->text, sizeof(base->text), "its agent has exited");
        bury(base);
        return;
    }
    if (link->follower) {
        remote_link_later(&link->base, link->spoke ? LOOK_SELDOM_MS : LOOK_MS, look);
        return;
    }
    if (gives_up(link)) {
        give_up_stopped(base);
        return;
    }
    if (link->stop && !agent_known(link))       /* an answer replaces this step */
        remote_link_later(base, link->give_up_at - uv_now(base->loop), give_up_stopped);
    slurm_client_ask(json_make("{s:s}", "op", "jobs"), on_jobs, link);
}

/* ---- the table ---- */

static int slurm_open(struct remote_link **out, uv_loop_t *loop, const struct remote_link_spec *spec,
                      const struct remote_link_hooks *hooks, struct err *err)
{
    *out = remote_link_create(sizeof(struct slurm), loop, spec, hooks, err);
    if (!*out)
        return -1;
    struct slurm *link = slurm_of(*out);
    link->follower = spec->node > 0;
    link->nodes = spec->nodes;
    link->save_ms = spec->save_ms;
    link->least = spec->least;
    snprintf(link->avoid, sizeof(link->avoid), "%s", spec->avoid ? spec->avoid : "");
    sbatch_comment(link->comment, spec->job, spec->attempt, spec->nonce);
    open_array(link, &spec->array);
    link->channel.message = channel_text;
    link->channel.ended = hung_up;
    agent_channel_open(&link->channel, *out, spec->node);
    if (!link->follower)
        slurm_client_use(loop);
    remote_link_later(*out, spec->delay_ms, look);
    return 0;
}

static void slurm_send(struct remote_link *base, enum wire_message number, json_t *body)
{
    struct slurm *link = slurm_of(base);
    if (number == WIRE_STOP && !link->stop) {
        int64_t grace = json_integer_value(json_object_get(body, "grace_ms"));
        link->stop = true;
        link->kill_at = uv_now(base->loop) + KILL_MS + (uint64_t)(grace > 0 ? grace : 0);
        link->give_up_at = uv_now(base->loop) + STOP_MS;
        if (!link->follower && !link->spoke && !link->bury_until)
            remote_link_later(base, 0, look);
    }
    remote_link_send(base, number, body);
}

static void slurm_close(struct remote_link *base)
{
    struct slurm *link = slurm_of(base);
    slurm_array_leave(&link->array);
    if (!link->follower) {
        slurm_client_forget(link);
        slurm_client_leave();
    }
    remote_link_close(base);
    agent_channel_close(&link->channel);
}

const struct remote remote_slurm = {
    .name = "slurm",
    .open = slurm_open,
    .send = slurm_send,
    .close = slurm_close,
};
