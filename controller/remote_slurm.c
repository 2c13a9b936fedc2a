/* SPDX-License-Identifier: Apache-2.0 */
/* remote_slurm.c - attempts in allocations of Slurm
 *
 *   look     which allocation has this attempt's comment (controller/sbatch.h)?
 *     none, and may_start    -> submit; the same comment never makes two
 *     pending                -> tell why, look again
 *     running                -> its agent is called as soon as it has written its name in the run
 *                               directory (agent/mail.h); look again, also while it speaks
 *     over, or forgotten     -> bury: fence, wait for the lock that the agent held, read the spool
 *                               to its end, lost
 *
 * Of an attempt on several nodes the link of node 0 does that; those of the others only call their
 * agents, which live and end with the allocation.
 *
 * Slurm is believed about its queue, never about the agent: one that speaks lives, whatever
 * slurmctld has forgotten, and while slurmctld is away nothing is concluded at all.  A node that was
 * lost may go on computing unseen; there the fence ends the ranks (agent/run_dir.h).
 */
#include "controller/remote.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/identity.h"
#include "agent/log.h"
#include "agent/run_dir.h"
#include "agent/spool.h"
#include "controller/agent_stream.h"
#include "controller/sbatch.h"
#include "controller/slurm_client.h"
#include "engine/err.h"

enum {
    LOOK_MS = 300,              /* until its agent speaks */
    LOOK_SELDOM_MS = 3000,      /* from then on, and while Slurm is away */
    LAST_WORDS_MS = 5000,       /* of an agent whose allocation is over */
    LOCK_MS = 90 * 1000,        /* for an agent on a lost node to find the fence */
    KILL_MS = 30 * 1000,        /* beyond the grace of a stop: then Slurm ends it */
    WORDS = 240
};

/* `jobctl-agent mail`, which carries what both say. */
struct carrier {
    uv_process_t process;
};

struct link {
    uv_loop_t           *loop;
    uv_timer_t           timer;
    struct link_hooks    hooks;
    struct agent_stream *stream;
    bool                 closed, may_start;
    bool                 member;        /* of an attempt whose allocation the head's link looks after */
    int                  nodes, least;
    char                 avoid[1024];
    bool                 spoke;         /* the agent, through this stream */
    bool                 submitted;     /* or found: there was an allocation */
    bool                 stop;
    uint64_t             kill_at;       /* with stop */
    uint64_t             over_since, bury_until;
    int64_t              job, attempt;
    int64_t              cancelled;     /* the number that Slurm was asked to end */
    char                 nonce[NONCE_CHARS + 1];
    char                 comment[SBATCH_COMMENT];
    char                 tag[48];
    char                 text[400];     /* why it is lost */
    char                *run_dir;
    void               (*step)(struct link *link);
};

static void look(struct link *link);
static void bury(struct link *link);

static void timer_fired(uv_timer_t *timer)
{
    struct link *link = timer->data;
    if (!link->closed)
        link->step(link);
}

static void later(struct link *link, uint64_t ms, void (*step)(struct link *link))
{
    if (link->closed)
        return;
    link->step = step;
    uv_timer_start(&link->timer, timer_fired, ms, 0);
}

__attribute__((format(printf, 2, 3))) static void wait_for(struct link *link, const char *fmt, ...)
{
    char text[WORDS];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (link->hooks.waiting && !link->spoke)
        link->hooks.waiting(link->hooks.arg, text);
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* ---- the stream ---- */

static void heard(void *arg, enum wire_message number, const json_t *body)
{
    struct link *link = arg;
    link->spoke = true;
    link->hooks.message(link->hooks.arg, number, body);
}

static void stream_ended(void *arg)
{
    struct link *link = arg;
    link->stream = NULL;
    link->spoke = false;
    later(link, LOOK_MS, look);
}

static void carrier_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void carrier_exited(uv_process_t *process, int64_t status, int signo)
{
    (void)status;               /* the stream has ended with it */
    (void)signo;
    uv_close((uv_handle_t *)process, carrier_closed);
}

static int carrier_start(struct link *link, int fd)
{
    char path[PATH_MAX];
    struct carrier *c = calloc(1, sizeof(*c));
    if (!c)
        return UV_ENOMEM;
    remote_agent_program(path, sizeof(path));
    char *args[] = { path, (char[]){ "mail" }, link->run_dir, NULL };
    uv_stdio_container_t io[3] = { { .flags = UV_INHERIT_FD, .data.fd = fd },
                                   { .flags = UV_IGNORE },
                                   { .flags = UV_INHERIT_FD, .data.fd = 2 } };
    uv_process_options_t options = { .exit_cb = carrier_exited, .file = path, .args = args,
                                     .flags = UV_PROCESS_DETACHED, .stdio = io, .stdio_count = 3 };
    c->process.data = c;
    int rc = uv_spawn(link->loop, &c->process, &options);
    if (rc != 0)
        uv_close((uv_handle_t *)&c->process, carrier_closed);
    else
        uv_unref((uv_handle_t *)&c->process);
    return rc;
}

static void call_agent(struct link *link)
{
    struct err err = { 0 };
    const struct wire_id id = { link->job, link->attempt, link->nonce };
    const struct agent_stream_hooks hooks = { heard, stream_ended, link };
    int ends[2], rc;
    if (link->stream || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    rc = carrier_start(link, ends[1]);
    close(ends[1]);
    if (rc != 0) {
        log_error(link->tag, "jobctl-agent mail cannot be started: %s", uv_strerror(rc));
        close(ends[0]);
    } else if (agent_stream_open(&link->stream, link->loop, ends[0], &id, &hooks, &err) < 0) {
        log_error(link->tag, "%s", err.text);
    }
}

/* ---- the end of an attempt ---- */

static int give_spooled(void *arg, const json_t *event)
{
    struct link *link = arg;
    struct err err = { 0 };
    const struct wire_row *row = wire_find(WIRE_EVENT, TO_CONTROLLER);
    const struct wire_id ours = { link->job, link->attempt, link->nonce };
    const struct wire_id said = wire_id_of(event);
    if (wire_check(row, event, &err) < 0 || !wire_id_same(&ours, &said)) {
        log_error(link->tag, "the spool holds something else than its events: %s", err.text);
        return 1;
    }
    link->hooks.message(link->hooks.arg, WIRE_EVENT, event);
    return link->closed;
}

static void read_spool(struct link *link)
{
    char spool[PATH_MAX];
    struct err err = { 0 };
    snprintf(spool, sizeof(spool), "%s/" RUN_DIR_SPOOL, link->run_dir);
    if (access(spool, R_OK) == 0 &&
        spool_read(spool, link->hooks.acked(link->hooks.arg), give_spooled, link, &err) < 0)
        log_error(link->tag, "%s", err.text);
    if (!link->closed)
        link->hooks.lost(link->hooks.arg, link->text);
}

static void bury(struct link *link)
{
    struct err err = { 0 }, unfenced = { 0 };
    agent_stream_close(link->stream);
    link->stream = NULL;
    link->spoke = false;
    if (!link->bury_until) {
        link->bury_until = uv_now(link->loop) + LOCK_MS;
        if (run_dir_fence(link->run_dir, &unfenced) < 0)
            log_warn(link->tag, "%s", unfenced.text);
    }
    int lock = run_dir_lock(link->run_dir, &err);
    if (lock < 0 && err.code == ERR_CONFLICT && uv_now(link->loop) < link->bury_until) {
        later(link, LOOK_MS, bury);     /* it will see the fence */
        return;
    }
    if (lock < 0)
        log_warn(link->tag, "nothing proves that its agent is gone: %s", err.text);
    else
        close(lock);
    read_spool(link);
}

/* ---- submitting ---- */

static void on_submitted(void *arg, const json_t *answer)
{
    struct link *link = arg;
    if (json_is_true(json_object_get(answer, "ok"))) {
        link->submitted = true;
        log_info(link->tag, "Slurm job %lld%s",
                 (long long)json_integer_value(json_object_get(answer, "job")),
                 json_is_true(json_object_get(answer, "found")) ? " was there already" : "");
        later(link, 0, look);
    } else if (json_is_true(json_object_get(answer, "away"))) {
        wait_for(link, "Slurm does not answer (%s); it is asked again", text_of(answer, "error"));
        later(link, LOOK_SELDOM_MS, look);      /* it may have come through: look first */
    } else {
        snprintf(link->text, sizeof(link->text), "Slurm refuses it: %s", text_of(answer, "error"));
        later(link, 0, bury);
    }
}

static char *render(const struct link *link, struct err *err)
{
    char path[PATH_MAX], agent[PATH_MAX];
    json_error_t why;
    snprintf(path, sizeof(path), "%s/../spec.json", link->run_dir);
    remote_agent_program(agent, sizeof(agent));
    json_t *spec = json_load_file(path, 0, &why);
    const struct sbatch s = { .spec = spec, .job = link->job, .attempt = link->attempt,
                              .nonce = link->nonce, .run_dir = link->run_dir, .agent = agent,
                              .nodes = link->nodes, .least = link->least, .avoid = link->avoid };
    char *script = NULL;
    if (spec)
        script = sbatch_render(&s, err);
    else
        err_set(err, ERR_SYSTEM, "%s cannot be read: %s", path, why.text);
    json_decref(spec);
    return script;
}

static void submit(struct link *link)
{
    struct err err = { 0 };
    char *script = render(link, &err);
    if (!script) {
        snprintf(link->text, sizeof(link->text), "it cannot be submitted: %.350s", err.text);
        later(link, 0, bury);
        return;
    }
    slurm_client_ask(json_pack("{s:s, s:s}", "op", "submit", "script", script), on_submitted, link);
    free(script);
}

/* ---- looking ---- */

static void on_cancelled(void *arg, const json_t *answer)
{
    struct link *link = arg;
    if (!json_is_true(json_object_get(answer, "ok")))
        link->cancelled = 0;    /* asked again at the next look */
    later(link, LOOK_MS, look);
}

static void cancel(struct link *link, const json_t *job)
{
    int64_t number = json_integer_value(json_object_get(job, "job"));
    if (link->cancelled == number) {
        later(link, LOOK_MS, look);
        return;
    }
    link->cancelled = number;
    log_info(link->tag, "Slurm is asked to end its job %lld", (long long)number);
    slurm_client_ask(json_pack("{s:s, s:I, s:s}", "op", "cancel", "job", (json_int_t)number,
                               "comment", link->comment), on_cancelled, link);
}

/* How Slurm ended it, for people. */
static void tell_end(struct link *link, const json_t *job)
{
    static const struct { const char *state, *text; } ends[] = {
        { "CANCELLED", "somebody cancelled it" },
        { "TIMEOUT", "its time limit was over" },
        { "NODE_FAIL", "a node of it failed" },
        { "PREEMPTED", "another job took its nodes" },
        { "OUT_OF_MEMORY", "it used more memory than it had asked for" },
        { "DEADLINE", "its deadline passed" },
        { "BOOT_FAIL", "its node did not start" },
    };
    const char *state = text_of(job, "state"), *text = NULL;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strcmp(ends[i].state, state) == 0)
            text = ends[i].text;
    long long number = json_integer_value(json_object_get(job, "job"));
    if (text)
        snprintf(link->text, sizeof(link->text), "Slurm ended its job %lld: %s (%s)", number, text,
                 state);
    else
        snprintf(link->text, sizeof(link->text), "its Slurm job %lld ended without a word of its "
                 "agent (%s, exit code %lld); %.200s/slurm.log may say more", number, state,
                 (long long)json_integer_value(json_object_get(job, "exit_code")), link->run_dir);
}

/* Slurm has ended it, or knows nothing of it any more; what its agent still says is heard first. */
static void over(struct link *link)
{
    uint64_t now = uv_now(link->loop);
    if (!link->over_since)
        link->over_since = now;
    if (link->stream && now - link->over_since < LAST_WORDS_MS)
        later(link, LOOK_MS, look);
    else
        bury(link);
}

/* An agent of this attempt was there once. */
static bool agent_known(const struct link *link)
{
    struct identity who;
    return identity_read(&who, link->run_dir, NULL) == 0 && strcmp(who.nonce, link->nonce) == 0;
}

static void absent(struct link *link)
{
    if (link->spoke) {
        later(link, LOOK_SELDOM_MS, look);      /* forgotten by Slurm, but it lives */
        return;
    }
    if (agent_known(link) || link->submitted) {
        snprintf(link->text, sizeof(link->text), "Slurm knows nothing of attempt %lld any more",
                 (long long)link->attempt);
        over(link);
    } else if (link->may_start && !link->stop && !run_dir_fenced(link->run_dir)) {
        submit(link);
    } else {
        snprintf(link->text, sizeof(link->text), "attempt %lld was never submitted to Slurm",
                 (long long)link->attempt);
        bury(link);
    }
}

static void running(struct link *link, const json_t *job)
{
    if (link->stop && uv_now(link->loop) > link->kill_at) {
        cancel(link, job);
        return;
    }
    wait_for(link, "Slurm job %lld has %s; its agent starts",
             (long long)json_integer_value(json_object_get(job, "job")), text_of(job, "nodes"));
    later(link, link->stop || !link->spoke ? LOOK_MS : LOOK_SELDOM_MS, look);
}

/* Of several with our comment the one that is not over: an agent lets no second one live. */
static const json_t *choose(const struct link *link, const json_t *jobs)
{
    const json_t *found = NULL, *job;
    for (size_t i = 0; (job = json_array_get(jobs, i)); i++) {
        if (strcmp(text_of(job, "comment"), link->comment) != 0)
            continue;
        if (!found || strcmp(text_of(found, "phase"), "ended") == 0)
            found = job;
    }
    return found;
}

static void on_jobs(void *arg, const json_t *answer)
{
    struct link *link = arg;
    if (!json_is_true(json_object_get(answer, "ok"))) {
        wait_for(link, "Slurm does not answer (%s); it is asked again", text_of(answer, "error"));
        later(link, LOOK_SELDOM_MS, look);
        return;
    }
    const json_t *job = choose(link, json_object_get(answer, "jobs"));
    const char *phase = text_of(job, "phase");
    if (!job) {
        absent(link);
        return;
    }
    link->submitted = true;
    if (strcmp(phase, "pending") == 0 && link->stop) {
        cancel(link, job);
    } else if (strcmp(phase, "pending") == 0) {
        wait_for(link, "Slurm job %lld is pending: %s",
                 (long long)json_integer_value(json_object_get(job, "job")),
                 text_of(job, "reason")[0] ? text_of(job, "reason") : "just submitted");
        later(link, LOOK_MS, look);
    } else if (strcmp(phase, "running") == 0) {
        running(link, job);
    } else if (strcmp(phase, "ending") == 0) {
        later(link, LOOK_MS, look);
    } else {
        tell_end(link, job);
        over(link);
    }
}

/* An agent that was there is called at once: that needs no slurmctld. */
static void look(struct link *link)
{
    if (!link->stream && agent_known(link))
        call_agent(link);
    if (link->member) {
        later(link, link->spoke ? LOOK_SELDOM_MS : LOOK_MS, look);
        return;
    }
    slurm_client_ask(json_pack("{s:s}", "op", "jobs"), on_jobs, link);
}

/* ---- the table ---- */

static int slurm_open(struct link **out, uv_loop_t *loop, const struct link_spec *spec,
                      const struct link_hooks *hooks, struct err *err)
{
    struct link *link = calloc(1, sizeof(*link));
    if (!link || !(link->run_dir = strdup(spec->run_dir))) {
        free(link);
        return err_set(err, ERR_MEMORY, "out of memory for a link to an agent");
    }
    link->loop = loop;
    link->hooks = *hooks;
    link->may_start = spec->may_start;
    link->member = spec->node > 0;
    link->nodes = spec->nodes;
    link->least = spec->least;
    snprintf(link->avoid, sizeof(link->avoid), "%s", spec->avoid ? spec->avoid : "");
    link->job = spec->job;
    link->attempt = spec->attempt;
    snprintf(link->nonce, sizeof(link->nonce), "%s", spec->nonce);
    sbatch_comment(link->comment, spec->job, spec->attempt, spec->nonce);
    snprintf(link->tag, sizeof(link->tag), "%lld.%lld", (long long)spec->job,
             (long long)spec->attempt);
    uv_timer_init(loop, &link->timer);
    link->timer.data = link;
    if (!link->member)
        slurm_client_use(loop);
    later(link, spec->delay_ms, look);
    *out = link;
    return 0;
}

static void slurm_send(struct link *link, enum wire_message number, json_t *body)
{
    if (number == WIRE_STOP && !link->stop) {
        int64_t grace = json_integer_value(json_object_get(body, "grace_ms"));
        link->stop = true;
        link->kill_at = uv_now(link->loop) + KILL_MS + (uint64_t)(grace > 0 ? grace : 0);
    }
    if (link->stream)
        agent_stream_send(link->stream, number, body);
    json_decref(body);
}

static void timer_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    free(link->run_dir);
    free(link);
}

static void slurm_close(struct link *link)
{
    link->closed = true;
    if (!link->member) {
        slurm_client_forget(link);
        slurm_client_leave();
    }
    agent_stream_close(link->stream);
    link->stream = NULL;
    uv_close((uv_handle_t *)&link->timer, timer_closed);
}

const struct remote remote_slurm = {
    .name = "slurm",
    .open = slurm_open,
    .send = slurm_send,
    .close = slurm_close,
};
