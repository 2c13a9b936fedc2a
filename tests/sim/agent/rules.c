/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c - what must hold for an agent, judged by what really happened; see host.h */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/exit_code.h"
#include "tests/sim/agent/host.h"

enum {
    STEP_EVENT_MS = 1010,   /* between two step events */
    HANG_STEP_MS = 25000,   /* data: 20 s, the others 5 s; a look each 200 ms */
    HANG_NEW_MS = 301000,   /* in a phase that no step after the first has ended yet */
    HANG_SILENT_SURE_MS = 610000, /* a command shows its output alone, and others print for some time */
    STOPPED_MS = 6000,
    NODE_LOST_MS = 90000,    /* 60 s for it to join; else 22.5 s of silence, and the end of the others */
    ENDS_MS = 20000,         /* from a fault to the end of its generation: report, rejoin, grace, kill */
    CLEANUP_MS = 6000,
    BEAT_SEEN_MS = 1100,    /* what is seen with a heartbeat */
    SEEN_MS = 250           /* what a command prints is read each 200 ms */
};

static struct {
    int64_t launched, stop_asked, stop_by;
    int generation;
    bool running;             /* generation_started, not yet ended */
    int64_t started, next_at; /* next_at: when the scheduled restart begins */
    int64_t step_event, step_due;
    bool hang, incident;      /* this generation's events were seen */
    bool scheduled, ended, stop_seen;
    int without;              /* restarts since the last progress */
    int64_t gained;
    int64_t save_at, kill_from;
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

void rules_stop(int64_t grace_ms, bool may_kill)
{
    const int64_t by = now() + ms(grace_ms > 2 * 1000 ? grace_ms : 2 * 1000) + ms(CLEANUP_MS);
    if (!r.stop_asked)
        r.stop_asked = now();
    r.stop_by = by > r.stop_by ? by : r.stop_by;
    const int64_t from = may_kill ? now() : now() + ms(grace_ms);
    r.kill_from = r.kill_from && r.kill_from < from ? r.kill_from : from;
}

void rules_killed(void)
{
    if (r.running && !host.lost && r.kill_from && now() + ms(SEEN_MS) < r.kill_from &&
        !host.teams[host.generations].struck)
        broke("a rank is killed %lld ms before its grace is over", (long long)((r.kill_from - now()) / NS_PER_MS));
}

/* As the process has ended, and at once; the exit of a shell waits for those that it has started. */
static void on_exited(const json_t *body, int64_t at)
{
    const int64_t pid = number(body, "pid") - FIRST_PID;
    const struct exit *e = &host.exits[pid >= 0 && pid < EXITS ? pid : 0];
    const int64_t due = e->lingers > e->at ? e->lingers : e->at;
    if (!e->at || pid < 0 || pid >= EXITS)
        return;
    const int64_t signo = number(body, "signal"), told = signo ? signo : number(body, "exit_code") << 8;
    if (told != e->status)
        broke("process %lld ended with status 0x%x, and 0x%x is reported", (long long)pid + FIRST_PID,
              (unsigned)e->status, (unsigned)told);
    if (at > due + ms(SEEN_MS) || at < e->at)
        broke("the end of process %lld is reported %lld ms late", (long long)pid + FIRST_PID,
              (long long)((at - due) / NS_PER_MS));
}

void rules_save(void)
{
    r.save_at = now();
}

bool rules_stopping(void)
{
    return r.stop_asked > 0;
}

/* --- one rule for each kind of event --------------------------------------------------------------------- */

static bool lease_is_free(void)
{
    char path[200];
    snprintf(path, sizeof(path), "%s.shared/lease.json", host.dir);
    json_t *lease = json_load_file(path, 0, NULL);
    const bool is_free = !lease || json_is_true(json_object_get(lease, "released"));
    json_decref(lease);
    return is_free;
}

static void on_started(const json_t *body, int64_t at)
{
    const int g = (int)number(body, "generation");
    if (g != r.generation + 1 || r.running)
        broke("generation %d begins after %d", g, r.generation);
    if (r.next_at && (at < r.next_at || at > r.next_at + ms(100)))
        broke("generation %d begins %lld ms after it was due", g, (long long)((at - r.next_at) / NS_PER_MS));
    if (json_array_size(json_object_get(body, "pids")) != (size_t)host.plan.np)
        broke("generation %d has %zu pids", g, json_array_size(json_object_get(body, "pids")));
    if (host.plan.lease && since_ms(at) < SEEN_MS && lease_is_free())
        broke("generation %d begins without a lease", g);
    r.generation = g;
    r.running = true;
    r.hang = r.incident = r.scheduled = false;
    r.next_at = 0;
    r.step_event = r.step_due = 0;
    r.started = at;
}

/* Nobody but a rank that stands still may be said to hang, and that in time. */
static void on_hang(const json_t *body, int64_t at)
{
    const struct team *t = &host.teams[r.generation];
    if (host.lost)
        return;
    const bool stands = t->fate == FATE_HANG || t->fate == FATE_STOPPED;
    if (!t->struck || !stands)
        broke("a hang is reported: %s; no rank stands still", text(body, "text"));
    const int64_t most = host.plan.command         ? HANG_SILENT_SURE_MS
                         : t->fate == FATE_STOPPED ? STOPPED_MS
                         : t->step <= t->from + 1  ? HANG_NEW_MS : HANG_STEP_MS;
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
    case 1:
        return host.plan.command ? "user_exit" : "data_error";
    default:
        return "unknown";
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
    if (host.lost) { /* others may report that they lost a peer, before the agent knows why */
        r.running = false;
        r.generation = g;
        r.gained = number(body, "gained");
        return;
    }
    if (!fault && !none)
        broke("generation %d failed (%s: %s), and nothing was wrong", g, cause, text(body, "text"));
    if (fault && none && !r.stop_asked)
        broke("generation %d failed, and its cause is none", g);
    if (fault && !none && strncmp(cause, expected(t), strlen(expected(t))) != 0)
        broke("generation %d failed by %s, and its cause is %s", g, expected(t), cause);
    if (fault && !none && t->fate != FATE_REFUSED && !(host.plan.command && r.hang) && number(body, "rank") != t->rank)
        broke("rank %d failed, and rank %lld is blamed: %s", t->rank, (long long)number(body, "rank"),
              text(body, "text"));
    if (fault && !r.hang && t->fate != FATE_HANG && t->fate != FATE_STOPPED && at - t->struck > ms(ENDS_MS))
        broke("generation %d ends %lld ms after its fault", g, (long long)((at - t->struck) / NS_PER_MS));
    if (r.hang && !r.incident && !r.stop_asked)
        broke("generation %d hung, and there is no report", g);
    if (r.step_due && at > r.step_due + ms(SEEN_MS) && host.plan.full == NEVER)
        broke("a step has no event");
    r.gained = number(body, "gained");
    if (r.gained > 0)
        r.without = 0;
    if (t->told_step > t->from && number(body, "step") != t->told_step && t->fate != FATE_REFUSED)
        broke("generation %d ended at step %lld, and its event has %lld", g, (long long)t->told_step,
              (long long)number(body, "step"));
    r.running = false;
    r.generation = g;
}

static void on_scheduled(const json_t *body, int64_t at)
{
    const int64_t delay = number(body, "delay_ms");
    r.next_at = at + ms(delay);
    r.scheduled = true;
    r.without += r.gained == 0;
    if (host.lost)
        return;
    int64_t least = r.without < 2 ? 0 : host.plan.backoff_min_ms << (r.without - 2);
    least = least < host.plan.backoff_max_ms ? least : host.plan.backoff_max_ms;
    if (delay < least || delay > least + least / 4 || delay > host.plan.backoff_max_ms)
        broke("the next start waits %lld ms after %d failures", (long long)delay, r.without);
    if (r.without > host.plan.restarts && !host.lost)
        broke("%d restarts without progress; %lld were permitted", r.without, (long long)host.plan.restarts);
}

/* 10 minutes, 3 minutes and 1 minute before the end of the machine. */
static void on_deadline(const json_t *body, int64_t at)
{
    static const int64_t before_s[] = {600, 180, 60};
    const int64_t left_ms = host.plan.ends_s * 1000 - (host.began_wall + (at - host.began)) / NS_PER_MS;
    bool any = false;
    for (int i = 0; i < 3; i++)
        any |= left_ms <= before_s[i] * 1000 && left_ms > before_s[i] * 1000 - 1100;
    if (!any)
        broke("a deadline is reported %lld ms before it: %s", (long long)left_ms, text(body, "text"));
    if (since_ms(at) < SEEN_MS)
        rules_save();
}

static void on_attempt_ended(const json_t *body, int64_t at)
{
    const char *result = text(body, "result");
    if (host.lost && at > host.lost + ms(NODE_LOST_MS))
        broke("the attempt ends %lld ms after a node was lost", (long long)((at - host.lost) / NS_PER_MS));
    if (host.lost && is(result, "failed") && !is(text(body, "cause"), "node_lost"))
        broke("a node was lost, and the cause of the attempt is %s", text(body, "cause"));
    const struct team *t = &host.teams[host.generations];
    if (processes_alive(0) > 0)
        broke("the attempt has ended with %d processes", processes_alive(0));
    for (int i = 0; i < PROCESSES; i++)
        if (host.processes[i].zombie)
            broke("the attempt has ended, and process %d was never reaped", host.processes[i].pid);
    if (is(result, "succeeded") != t->done && !r.stop_asked && !host.lost) /* some may have ended */
        broke("the attempt has %s, and the run is %s", result, t->done ? "complete" : "not complete");
    if (is(result, "stopped") && !r.stop_asked)
        broke("the attempt was stopped, and nobody asked");
    if (r.stop_asked && at > r.stop_by && !host.lost) /* whose ranks nobody can end */
        broke("the attempt ends %lld ms after its grace was over", (long long)((at - r.stop_by) / NS_PER_MS));
    if (json_is_true(json_object_get(body, "gave_up")) && r.without < host.plan.restarts &&
        number(body, "same_fingerprint") < host.plan.no_progress)
        broke("the attempt gave up after %d of %lld restarts", r.without, (long long)host.plan.restarts);
    if (r.stop_asked && !r.stop_seen && at > r.stop_asked + ms(BEAT_SEEN_MS))
        broke("nobody acted on the stop");
    if (host.plan.lease && !lease_is_free())
        broke("the attempt has ended, and its lease is held");
    r.ended = true;
    r.next_at = 0;
}

static void on_stop_asked(int64_t at)
{
    r.stop_seen = true;
    if (!r.stop_asked || at > r.stop_asked + ms(BEAT_SEEN_MS))
        broke("a stop is reported %lld ms after somebody asked", (long long)((at - r.stop_asked) / NS_PER_MS));
}

/* A second after the last event of a step, the next step has one. */
static void on_step(int64_t at)
{
    if (r.step_due && at > r.step_due + ms(SEEN_MS) && host.plan.full == NEVER)
        broke("a step event comes %lld ms late", (long long)((at - r.step_due) / NS_PER_MS));
    r.step_event = at;
    r.step_due = 0;
}

void rules_step(void)
{
    if (r.running && r.step_event && !r.step_due && now() > r.step_event + ms(STEP_EVENT_MS))
        r.step_due = now();
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
    else if (is(kind, "rank_exited"))
        on_exited(body, at);
    else if (is(kind, "deadline"))
        on_deadline(body, at);
    else if (is(kind, "stop_asked"))
        on_stop_asked(at);
    else if (is(kind, "incident"))
        r.incident = true;
    else if (is(kind, "step"))
        on_step(at);
}

/* --- at any moment ------------------------------------------------------------------------------------------- */

void rules_heartbeat(const json_t *body)
{
    const int g = (int)number(body, "generation");
    const struct team *t = &host.teams[g < TEAMS ? g : 0];
    if (g == host.generations && t->told && now() > t->told + (host.plan.command ? ms(SEEN_MS) : 0) &&
        number(body, "step") != t->told_step && is(text(body, "state"), "running"))
        broke("the heartbeat has step %lld, and rank 0 has reported %lld", (long long)number(body, "step"),
              (long long)t->told_step);
}

void rules_look(void)
{
    peer_look();
    const struct team *t = &host.teams[r.running ? r.generation : 0];
    if (r.save_at && r.running && !host.lost && !r.hang && !r.stop_asked && !host.plan.command &&
        now() > r.save_at + ms(SEEN_MS) && !t->struck && t->told && ranks_asked_to_save() < r.save_at - ms(SEEN_MS))
        broke("no rank was asked for a checkpoint");
    if (now() > r.save_at + ms(SEEN_MS))
        r.save_at = 0;
    if (r.stop_asked && !r.ended && now() > r.stop_by + ms(60000))
        broke("the attempt is not over %lld ms after its stop", (long long)since_ms(r.stop_asked));
}

void rules_end(void)
{
    if (processes_alive(0) > 0)
        broke("the agent has left, and %d processes have not", processes_alive(0));
}
