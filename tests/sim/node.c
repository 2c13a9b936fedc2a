/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - see world.h: the shell of agent_core, and processes that live and die
 *
 * Ranks train: a step at a time, a checkpoint every ten, which outlives them.
 */
#include "tests/sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "agent/agent_core.h"
#include "agent/agent_effects.h"

enum { STEPS_PER_CHECKPOINT = 10, UNLAUNCHED_MS = 60000, LINGER_MS = 600000 };

static void feed(struct world *w, int job, int attempt, struct agent_input *in);

static void pump(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    if (!a->conn || !a->launched)
        return;
    for (; a->sent < (int64_t)json_array_size(a->spool); a->sent++)
        post(w, true, job, attempt, a->conn,
             json_incref(json_array_get(a->spool, (size_t)a->sent)));
}

static void spool(struct world *w, int job, int attempt, const char *kind, json_t *body)
{
    struct agent *a = &w->agents[job][attempt];
    json_array_append_new(a->spool, json_pack("{s:s, s:I, s:s, s:I, s:O}", "type", "event", "seq",
                                              (json_int_t)json_array_size(a->spool) + 1, "kind",
                                              kind, "wall_ms", (json_int_t)wall(w), "body", body));
    say(w, "  agent %d.%d event %zu %s", job, attempt, json_array_size(a->spool), kind);
}

static struct happening *rank_ends(struct world *w, int64_t in_ms, int job, int attempt, int rank,
                                   int code, int signo)
{
    struct agent *a = &w->agents[job][attempt];
    struct happening *h = plan(w, in_ms, RANK_ENDS, job, attempt, 0);
    h->a = rank;
    h->b = signo ? -signo : code;
    h->body = json_integer(a->generation);
    return h;
}

static void each_rank_ends(struct world *w, int64_t low, int64_t high, int job, int attempt,
                           int code, int signo)
{
    for (int r = 0; r < RANKS; r++)
        if (w->agents[job][attempt].rank[r])
            rank_ends(w, between(w, low, high), job, attempt, r, code, signo);
}

static void write_checkpoint(struct world *w, int job, const struct agent *a)
{
    if (a->step > w->truth[job].checkpoint)
        w->truth[job].checkpoint = a->step;
}

static void spawn(struct world *w, int job, int attempt, int generation)
{
    struct agent *a = &w->agents[job][attempt];
    if (a->ranks_live > 0)
        broke(w, "job %d.%d: generation %d is started while %d ranks of %d live", job, attempt,
              generation, a->ranks_live, a->generation);
    for (int other = 1; other < ATTEMPTS; other++)
        if (other != attempt && w->agents[job][other].ranks_live > 0)
            broke(w, "job %d runs twice: attempt %d is started while ranks of %d live", job,
                  attempt, other);
    a->generation = generation;
    for (int r = 0; r < w->truth[job].np; r++)
        a->rank[r] = true;
    a->ranks_live = w->truth[job].np;
    a->step = w->truth[job].checkpoint;
    struct happening *h = plan(w, between(w, 1, 20), RANKS_SPAWNED, job, attempt, a->life);
    h->a = generation;
    plan(w, between(w, 50, 400), RANK_TICK, job, attempt, 0)->a = generation;
    say(w, "  ranks %d.%d.%d start at step %lld", job, attempt, generation, (long long)a->step);
}

static void signal_ranks(struct world *w, int job, int attempt, int signo)
{
    if (signo == 9) {
        each_rank_ends(w, 1, 2, job, attempt, 0, 9);
    } else if (w->truth[job].engine) {
        write_checkpoint(w, job, &w->agents[job][attempt]);
        each_rank_ends(w, 10, 300, job, attempt, 75, 0);
    } else if (!fault(w, 5)) {          /* else they pay no attention */
        each_rank_ends(w, 1, 50, job, attempt, 0, signo);
    }
}

void ranks_kill(struct world *w, int job, int attempt)
{
    each_rank_ends(w, 0, 0, job, attempt, 0, 9);
}

static void perform(struct world *w, int job, int attempt, const struct agent_effect *e)
{
    struct agent *a = &w->agents[job][attempt];
    switch (e->kind) {
    case DO_EVENT:
        spool(w, job, attempt, e->event, e->body);
        return;
    case DO_SETUP:
        plan(w, between(w, 10, 2000), SETUP_ENDS, job, attempt, a->life);
        return;
    case DO_SPAWN:
        spawn(w, job, attempt, e->generation);
        return;
    case DO_CONTROL:
        if (strcmp(e->command, "stop") == 0 && w->truth[job].engine)
            signal_ranks(w, job, attempt, 15);
        return;
    case DO_SIGNAL:
        signal_ranks(w, job, attempt, e->signo);
        return;
    case DO_INCIDENT:
        return;                         /* never comes: the core does not wait for it for long */
    case DO_SWEEP:
        ranks_kill(w, job, attempt);
        plan(w, between(w, 1, 30), SWEEP_ENDS, job, attempt, a->life);
        return;
    case DO_TIMER:
        a->timer_at = e->at_ms;
        if (e->at_ms)
            plan(w, e->at_ms > w->now ? e->at_ms - w->now : 0, AGENT_TIMER, job, attempt, a->life);
        return;
    case DO_FINISH:
        a->finished = true;
        plan(w, LINGER_MS, AGENT_LINGERS, job, attempt, a->life);
        return;
    }
}

static void feed(struct world *w, int job, int attempt, struct agent_input *in)
{
    struct agent *a = &w->agents[job][attempt];
    struct agent_effects out = { .n = 0 };
    const uint64_t life = a->life;
    in->now_ms = w->now;
    in->jitter = (double)(chance(w) % 1000) / 1000;
    agent_core_step(a->core, in, &out);
    for (int i = 0; i < out.n && a->life == life; i++) {
        if (fault(w, 1500))             /* between any two effects */
            agent_dies(w, job, attempt);
        else
            perform(w, job, attempt, &out.list[i]);
    }
    agent_effects_fini(&out);
    if (a->life == life)
        pump(w, job, attempt);
}

/* ---- the agent's process ---- */

static void comes(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    if (a->alive || a->fenced || a->made)
        return;                 /* the lock, the fence; the hub never starts a second incarnation */
    if (agent_core_create(&a->core, NULL) < 0)
        abort();
    a->alive = a->made = true;
    a->spool = json_array();
    a->life++;
    plan(w, UNLAUNCHED_MS, AGENT_LINGERS, job, attempt, a->life);
    say(w, "  agent %d.%d is up", job, attempt);
}

/* Its end by itself, or by a crash: then ranks may stay behind. */
static void gone(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    a->alive = false;
    a->conn = 0;
    a->life++;
    agent_core_destroy(a->core);
    a->core = NULL;
}

void agent_dies(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    if (!a->alive)
        return;
    say(w, "! agent %d.%d dies with %d ranks", job, attempt, a->ranks_live);
    w->crashes++;
    gone(w, job, attempt);
    if (w->truth[job].engine) {         /* they see the end of the control pipe */
        write_checkpoint(w, job, a);
        each_rank_ends(w, 10, 8000, job, attempt, 75, 0);
    }
}

void agent_connect(struct world *w, int job, int attempt, int conn)
{
    struct agent *a = &w->agents[job][attempt];
    a->conn = conn;
    post(w, true, job, attempt, conn, json_pack("{s:s, s:b, s:I}", "type", "hello", "launched",
                                                (int)a->launched, "last_seq",
                                                (json_int_t)json_array_size(a->spool)));
}

static void launched(struct world *w, int job, int attempt, const json_t *m)
{
    struct agent *a = &w->agents[job][attempt];
    const json_t *history = json_object_get(m, "history");
    a->sent = json_integer_value(json_object_get(m, "acked"));
    if (a->launched) {
        pump(w, job, attempt);
        return;
    }
    a->launched = true;
    struct agent_input in = { .kind = INPUT_LAUNCH };
    in.launch = (struct agent_launch){
        .np = w->truth[job].np, .engine = w->truth[job].engine,
        .has_setup = w->truth[job].has_setup,
        .budget = { .restarts = json_integer_value(json_object_get(m, "restarts")),
                    .backoff_min_ms = 500, .backoff_max_ms = 4000,
                    .no_progress = json_integer_value(json_object_get(m, "no_progress")) },
        .history = {
            .failures_without_progress = json_integer_value(json_object_get(history, "failures")),
            .same_fingerprint = json_integer_value(json_object_get(history, "same")),
            .last_step = json_integer_value(json_object_get(history, "last_step")),
            .fingerprint = json_string_value(json_object_get(history, "fingerprint")),
        },
    };
    feed(w, job, attempt, &in);
}

static void hears(struct world *w, int job, int attempt, const json_t *m)
{
    struct agent *a = &w->agents[job][attempt];
    const char *type = json_string_value(json_object_get(m, "type"));
    if (strcmp(type, "launch") == 0) {
        launched(w, job, attempt, m);
    } else if (strcmp(type, "ack") == 0) {
        int64_t seq = json_integer_value(json_object_get(m, "seq"));
        a->acked = seq > a->acked ? seq : a->acked;
        if (a->finished && a->acked >= (int64_t)json_array_size(a->spool))
            gone(w, job, attempt);
    } else {
        struct agent_input in = { .kind = INPUT_STOP };
        in.stop.reason = "asked";
        in.stop.grace_ms = 5000;
        in.stop.checkpoint = true;
        feed(w, job, attempt, &in);
    }
}

/* ---- ranks ---- */

static void progress(struct world *w, int job, int attempt, json_t *line)
{
    struct agent *a = &w->agents[job][attempt];
    struct agent_input in = { .kind = INPUT_PROGRESS };
    in.progress.generation = a->generation;
    in.progress.line = line;
    if (a->alive)
        feed(w, job, attempt, &in);
    json_decref(line);
}

static void spawned(struct world *w, int job, int attempt, int generation)
{
    struct agent *a = &w->agents[job][attempt];
    int64_t pids[RANKS] = { 100, 101, 102 };
    struct agent_input in = { .kind = INPUT_SPAWNED };
    in.spawn.generation = generation;
    in.spawn.pids = pids;
    const uint64_t life = a->life;
    feed(w, job, attempt, &in);
    if (a->life == life && a->rank[0])
        progress(w, job, attempt,
                 json_pack("{s:s, s:i, s:i, s:I, s:I}", "ev", "started", "rank", 0, "world_size",
                           w->truth[job].np, "resume_step", (json_int_t)a->step, "steps",
                           (json_int_t)w->truth[job].steps));
}

static void tick(struct world *w, int job, int attempt, int generation)
{
    struct agent *a = &w->agents[job][attempt];
    struct truth *t = &w->truth[job];
    if (a->generation != generation || a->ranks_live < t->np)
        return;                 /* one of them is gone: the others wait in a collective */
    if (t->doomed || fault(w, 60)) {
        rank_ends(w, 0, job, attempt, (int)between(w, 0, t->np - 1), 3, t->doomed ? 0 : 9);
        return;
    }
    a->step += between(w, 1, 4);
    if (a->step >= t->steps)
        a->step = t->steps;
    progress(w, job, attempt, json_pack("{s:s, s:I, s:I, s:f}", "ev", "step", "step",
                                        (json_int_t)a->step, "steps", (json_int_t)t->steps,
                                        "loss", 0.5));
    if (a->step / STEPS_PER_CHECKPOINT > t->checkpoint / STEPS_PER_CHECKPOINT ||
        a->step == t->steps) {
        write_checkpoint(w, job, a);
        progress(w, job, attempt, json_pack("{s:s, s:I, s:s, s:i, s:i, s:s}", "ev", "checkpoint",
                                            "step", (json_int_t)a->step, "path", "/c", "bytes", 1,
                                            "ms", 1, "digest", "x"));
    }
    if (a->step == t->steps) {
        t->completed = true;
        progress(w, job, attempt, json_pack("{s:s, s:I, s:f}", "ev", "done", "step",
                                            (json_int_t)a->step, "loss", 0.1));
        each_rank_ends(w, 1, 20, job, attempt, 0, 0);
        return;
    }
    plan(w, between(w, 50, 400), RANK_TICK, job, attempt, 0)->a = generation;
}

static void ended(struct world *w, const struct happening *h)
{
    struct agent *a = &w->agents[h->job][h->attempt];
    if (a->generation != json_integer_value(h->body) || !a->rank[h->a])
        return;
    a->rank[h->a] = false;
    a->ranks_live--;
    struct agent_input in = { .kind = INPUT_RANK_EXITED };
    in.exited = (struct agent_exit){ .generation = a->generation, .rank = h->a, .pid = 100 + h->a,
                                     .signalled = h->b < 0, .signo = h->b < 0 ? -h->b : 0,
                                     .exit_code = h->b < 0 ? 0 : h->b, .after_ms = 1 };
    if (a->alive)
        feed(w, h->job, h->attempt, &in);
}

void node_happens(struct world *w, const struct happening *h)
{
    struct agent *a = &w->agents[h->job][h->attempt];
    struct agent_input in = { .now_ms = w->now };
    switch (h->what) {
    case AGENT_COMES:
        comes(w, h->job, h->attempt);
        return;
    case RANK_TICK:
        tick(w, h->job, h->attempt, h->a);
        return;
    case RANK_ENDS:
        ended(w, h);
        return;
    case AGENT_CRASH:                   /* whichever there is */
        for (int n = 1; n < ATTEMPTS; n++)
            agent_dies(w, h->job, n);
        return;
    case AGENT_HEARS:
        if (a->alive && a->conn == h->a)
            hears(w, h->job, h->attempt, h->body);
        return;
    default:
        break;
    }
    if (!a->alive || a->life != h->life)
        return;
    if (h->what == SETUP_ENDS) {
        in.kind = INPUT_SETUP_EXITED;
        in.exited.exit_code = fault(w, 10) ? 1 : 0;
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == RANKS_SPAWNED) {
        spawned(w, h->job, h->attempt, h->a);
    } else if (h->what == AGENT_TIMER && a->timer_at && a->timer_at <= w->now) {
        in.kind = INPUT_TIMER;
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == SWEEP_ENDS) {
        in.kind = INPUT_SWEPT;
        in.swept.clean = true;
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == AGENT_LINGERS && (a->finished || !a->launched)) {
        gone(w, h->job, h->attempt);
    }
}
