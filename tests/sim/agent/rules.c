/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - what must hold for an agent, judged by what really happened; see host.h */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/exit_code.h"
#include "tests/sim/agent/host.h"

enum {
    STEP_EVENT_MS = 1100,   /* between two step events while steps are made */
    HANG_STEP_MS = 25000,   /* data: 20 s, the others 5 s; a look each 200 ms */
    HANG_NEW_MS = 301000,   /* in a phase that no step after the first has ended yet */
    HANG_SILENT_SURE_MS = 601000, /* a command shows its output alone */
    STOPPED_MS = 6000,
    ENDS_MS = 16500,         /* from a fault to the end of its generation: report, rejoin, grace, kill */
    CLEANUP_MS = 2000,
    SEEN_MS = 250           /* what a command prints is read each 200 ms */
};

static struct {
    int64_t launched, stop_asked, stop_by;
    int generation;
    bool running;             /* generation_started, not yet ended */
    int64_t started, next_at; /* next_at: when the scheduled restart begins */
    int64_t step_event, step_event_step;
    bool hang;                /* this generation's hang event was seen */
    bool scheduled, ended;
    int exits;
} r;

static int64_t number(const json_t *body, const char *key)
{
    return json_integer_value(json_object_get(body, key));
}

static const char *text(const json_t *body, const char *key)
{
    const char *s = json_string_value(json_object_get(body, key));
    return s ? s : "";
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int64_t since_ms(int64_t at)
{
    return (now() - at) / NS_PER_MS;
}

void rules_stop(int64_t grace_ms)
{
    const int64_t by = now() + ms(grace_ms > 2 * 1000 ? grace_ms : 2 * 1000) + ms(CLEANUP_MS);
    if (!r.stop_asked)
        r.stop_asked = now();
    r.stop_by = by > r.stop_by ? by : r.stop_by;
}

bool rules_stopping(void)
{
    return r.stop_asked > 0;
}

/* --- one rule for each kind of event --------------------------------------------------------------------- */

static void on_started(const json_t *body, int64_t at)
{
    const int g = (int)number(body, "generation");
    if (g != r.generation + 1 || r.running)
        broke("generation %d begins after %d", g, r.generation);
    if (r.next_at && (at < r.next_at || at > r.next_at + ms(100)))
        broke("generation %d begins %lld ms after it was due", g, (long long)((at - r.next_at) / NS_PER_MS));
    if (json_array_size(json_object_get(body, "pids")) != (size_t)host.plan.np)
        broke("generation %d has %zu pids", g, json_array_size(json_object_get(body, "pids")));
    r.generation = g;
    r.running = true;
    r.hang = r.scheduled = false;
    r.next_at = 0;
    r.exits = 0;
    r.step_event = 0;
    r.started = at;
}

/* Nobody but a rank that stands still may be said to hang, and that in time. */
static void on_hang(const json_t *body, int64_t at)
{
    const struct team *t = &host.teams[r.generation];
    const bool stands = t->fate == FATE_HANG || t->fate == FATE_STOPPED;
    if (!t->struck || !stands)
        broke("a hang is reported: %s; no rank stands still", text(body, "text"));
    const int64_t most = host.plan.command ? HANG_SILENT_SURE_MS : t->fate == FATE_STOPPED ? STOPPED_MS : t->step <= t->from + 1 ? HANG_NEW_MS : HANG_STEP_MS;
    if (at - t->struck > ms(most))
        broke("the hang is seen %lld ms after it began", (long long)((at - t->struck) / NS_PER_MS));
    if (number(body, "rank") != t->rank && !host.plan.command)
        broke("rank %d stands still, and rank %lld is said to", t->rank, (long long)number(body, "rank"));
    r.hang = true;
}

static const char *expected(const struct team *t)
{
    if (t->fate == FATE_HANG || t->fate == FATE_STOPPED)
        return "hang_";
    if (t->fate == FATE_SIGNAL)
        return "rank_crash";
    if (t->fate == FATE_REFUSED)
        return "unknown";
    switch (t->code) {
    case EXIT_CHECKPOINT:
        return "checkpoint_error";
    case EXIT_GPU_MEMORY:
        return "gpu_oom";
    case EXIT_HOST_MEMORY:
        return "host_oom";
    case EXIT_NAN:
        return "nan_loss";
    case EXIT_DESYNC:
        return "desync";
    case EXIT_IO:
        return "io_error";
    case EXIT_LIMIT:
        return "resource_limit";
    case EXIT_COLLECTIVE:
        return "nccl_error";
    default:
        return host.plan.command && t->code == 1 ? "user_exit" : "unknown";
    }
}

static void on_generation_ended(const json_t *body, int64_t at)
{
    const int g = (int)number(body, "generation");
    const struct team *t = &host.teams[g];
    const char *cause = text(body, "cause");
    const bool fault = t->struck && t->fate != FATE_SLOW, none = is(cause, "none");
    if (processes_alive(g) > 0 && t->fate != FATE_ORPHAN && now() == at)
        say("generation %d has ended with %d processes", g, processes_alive(g));
    if (!fault && !none)
        broke("generation %d failed (%s: %s), and nothing was wrong", g, cause, text(body, "text"));
    if (fault && none && !r.stop_asked)
        broke("generation %d failed, and its cause is none", g);
    if (fault && !none && strncmp(cause, expected(t), strlen(expected(t))) != 0)
        broke("generation %d failed by %s, and its cause is %s", g, expected(t), cause);
    if (fault && !none && t->fate != FATE_REFUSED && !(host.plan.command && r.hang) && number(body, "rank") != t->rank)
        broke("rank %d failed, and rank %lld is blamed: %s", t->rank, (long long)number(body, "rank"), text(body, "text"));
    if (fault && !r.hang && t->fate != FATE_HANG && t->fate != FATE_STOPPED && at - t->struck > ms(ENDS_MS))
        broke("generation %d ends %lld ms after its fault", g, (long long)((at - t->struck) / NS_PER_MS));
    r.running = false;
    r.generation = g;
}

static void on_scheduled(const json_t *body, int64_t at)
{
    const int64_t delay = number(body, "delay_ms");
    if (delay > host.plan.backoff_max_ms * 5 / 4 + 1)
        broke("the next start waits %lld ms", (long long)delay);
    r.next_at = at + ms(delay);
    r.scheduled = true;
}

static void on_attempt_ended(const json_t *body, int64_t at)
{
    const char *result = text(body, "result");
    const struct team *t = &host.teams[host.generations];
    if (processes_alive(0) > 0)
        broke("the attempt has ended with %d processes", processes_alive(0));
    for (int i = 0; i < PROCESSES; i++)
        if (host.processes[i].zombie)
            broke("the attempt has ended, and process %d was never reaped", host.processes[i].pid);
    if (is(result, "succeeded") != t->done && !r.stop_asked) /* a stop may come when only some ranks have ended */
        broke("the attempt has %s, and the run is %s", result, t->done ? "complete" : "not complete");
    if (is(result, "stopped") && !r.stop_asked)
        broke("the attempt was stopped, and nobody asked");
    if (r.stop_asked && at > r.stop_by)
        broke("the attempt ends %lld ms after its grace was over", (long long)((at - r.stop_by) / NS_PER_MS));
    r.ended = true;
    r.next_at = 0;
}

void rules_event(const json_t *event)
{
    const char *kind = text(event, "kind");
    const json_t *body = json_object_get(event, "body");
    const int64_t at = number(event, "mono_ns");
    char *dump = json_dumps(body, JSON_COMPACT);
    say("event %lld %s %s", (long long)number(event, "seq"), kind, is(kind, "plan") ? "" : dump);
    free(dump);
    if (r.ended)
        broke("%s follows attempt_ended", kind);
    if (is(kind, "generation_started"))
        on_started(body, at);
    else if (is(kind, "hang"))
        on_hang(body, at);
    else if (is(kind, "generation_ended"))
        on_generation_ended(body, at);
    else if (is(kind, "restart_scheduled"))
        on_scheduled(body, at);
    else if (is(kind, "attempt_ended"))
        on_attempt_ended(body, at);
    else if (is(kind, "step")) {
        r.step_event = at;
        r.step_event_step = number(body, "step");
    } else if (is(kind, "rank_exited")) {
        r.exits++;
    }
}

/* --- at any moment ------------------------------------------------------------------------------------------- */

void rules_heartbeat(const json_t *body, bool settled)
{
    const int g = (int)number(body, "generation");
    const struct team *t = &host.teams[g < TEAMS ? g : 0];
    (void)settled;
    if (g == host.generations && t->told && now() > t->told + (host.plan.command ? ms(SEEN_MS) : 0) && number(body, "step") != t->told_step &&
        is(text(body, "state"), "running"))
        broke("the heartbeat has step %lld, and rank 0 has reported %lld", (long long)number(body, "step"),
              (long long)t->told_step);
}

void rules_look(void)
{
    peer_look();
    if (r.stop_asked && !r.ended && now() > r.stop_by + ms(60000))
        broke("the attempt is not over %lld ms after its stop", (long long)since_ms(r.stop_asked));
}

void rules_end(void)
{
    if (!r.ended && !host.plan.never_launched)
        broke("attempt_ended never came");
    if (processes_alive(0) > 0)
        broke("the agent has left, and %d processes have not", processes_alive(0));
}
