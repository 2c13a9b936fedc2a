/* SPDX-License-Identifier: Apache-2.0 */
/* node.c - see world.h: the shell of agent_core, and processes that live and die
 *
 * Ranks train: some steps at a time, a checkpoint now and then, which outlives
 * them, and endings of every kind (endings.c).
 */
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/core/agent_effects.h"
#include "tests/sim/world.h"

enum { UNLAUNCHED_MS = 60000, LINGER_MS = 600000, STOP_GRACE_MS = 5000, NODE_NOTICED_MS = 12000 };

static void feed(struct world *w, int job, int attempt, struct agent_input *in);

static struct wire_id id_of(const struct world *w, int job, int attempt)
{
    return (struct wire_id){ job, attempt, w->store[job].nonce[attempt] };
}

static struct message *message_from(const struct world *w, int job, int attempt, enum message_type type)
{
    return message_make(type, attempt, id_of(w, job, attempt).nonce);
}

static void pump(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    if (!a->conn || !a->launched)
        return;
    for (; a->sent < a->spooled; a->sent++)
        post(w, true, job, a->conn, message_hold(a->spool[a->sent]));
}

static void spool(struct world *w, int job, int attempt, const char *kind, json_t *body)
{
    struct agent *a = &w->agents[job][attempt];
    if (fault(w, 1500, HARM_SPOOL))
        a->losses = 1 + (int)(w->order % 3);
    if (a->losses > 0) {        /* of one or several events in a row; the agent logs it and continues */
        a->losses--;
        return;
    }
    if (a->spooled == a->room) {
        a->room = a->room ? 2 * a->room : 32;
        a->spool = reallocarray(a->spool, (size_t)a->room, sizeof(struct message *));
        if (!a->spool)
            abort();
    }
    struct message *m = message_from(w, job, attempt, MSG_EVENT);
    m->seq = a->spooled + 1;
    m->kind = kind;
    m->wall_ms = wall(w);
    m->mono_ms = w->now;
    m->body = json_incref(body);
    a->spool[a->spooled++] = m;
    say(w, "  agent %d.%d event %lld %s", job, attempt, (long long)m->seq, kind);
}

/* ---- how ranks end: `how` is one of the words above, or a row of the table ---- */

static void rank_ends(struct world *w, int64_t in_ms, int job, int attempt, int rank, int how)
{
    struct happening *h = plan(w, in_ms, RANK_ENDS, job, attempt, (uint64_t)w->agents[job][attempt].generation);
    h->a = rank;
    h->b = how;
}

static void each_rank_ends(struct world *w, int64_t low, int64_t high, int job, int attempt, int how)
{
    for (int r = 0; r < w->agents[job][attempt].np; r++)
        if (w->agents[job][attempt].rank[r])
            rank_ends(w, between(w, low, high), job, attempt, r, how);
}

static void write_checkpoint(struct world *w, int job, const struct agent *a)
{
    if (a->step > w->truth[job].checkpoint)
        w->truth[job].checkpoint = a->step;
}

static void signal_ranks(struct world *w, int job, int attempt, int signo)
{
    struct agent *a = &w->agents[job][attempt];
    a->deaf = a->deaf || fault(w, 10, HARM_RANK_DEAF);
    if (signo == 9) {
        each_rank_ends(w, 1, 2, job, attempt, IS_KILLED);
    } else if (a->deaf) {
        return;                 /* stuck in a driver, say */
    } else if (w->truth[job].engine) {
        if (!a->detached[0])    /* else there is no run to save */
            write_checkpoint(w, job, a);
        each_rank_ends(w, 10, 300, job, attempt, HEEDS);
    } else {
        each_rank_ends(w, 1, 50, job, attempt, DIES_OF_TERM);
    }
}

void ranks_kill(struct world *w, int job, int attempt)
{
    each_rank_ends(w, 0, 0, job, attempt, IS_KILLED);
}

static void spawn(struct world *w, int job, int attempt, int generation, bool keep)
{
    struct agent *a = &w->agents[job][attempt];
    parting_ends(w, job, attempt, keep);
    for (int other = 1; other < ATTEMPTS; other++)
        if (other != attempt && w->agents[job][other].ranks_live > 0)
            broke(w, "job %d runs twice: attempt %d is started while ranks of %d live", job, attempt, other);
    a->generation = generation;
    a->deaf = false;
    struct happening *h = plan(w, between(w, 1, 20), RANKS_SPAWNED, job, attempt, a->life);
    h->a = generation;
    if (fault(w, 100, HARM_SPAWN)) {    /* nothing of it is left, nor of those that were kept */
        h->b = 1;
        memset(a->rank, 0, sizeof(a->rank));
        a->ranks_live = 0;
        return;
    }
    a->ranks_live = a->fallen ? node_first_rank(a) : a->np;
    for (int r = 0; r < a->np; r++)
        a->rank[r] = r < a->ranks_live;
    a->step = w->truth[job].checkpoint;
    plan(w, between(w, 50, 400), RANK_TICK, job, attempt, 0)->a = generation;
    say(w, "  ranks %d.%d.%d start at step %lld", job, attempt, generation, (long long)a->step);
    node_may_fall(w, job, attempt, 60, 0);
}

static void perform(struct world *w, int job, int attempt, const struct agent_effect *e)
{
    struct agent *a = &w->agents[job][attempt];
    rules_effect(w, job, attempt, e);
    nodes_effect(w, job, attempt, e);
    switch (e->kind) {
    case DO_EVENT:
        spool(w, job, attempt, e->event, e->body);
        return;
    case DO_SETUP:
        plan(w, between(w, 10, 2000), SETUP_ENDS, job, attempt, a->life);
        node_may_fall(w, job, attempt, 30, 0);
        return;
    case DO_SPAWN:
        spawn(w, job, attempt, e->generation, e->keep);
        return;
    case DO_CONTROL:
        if (strcmp(e->command, "stop") == 0 && w->truth[job].engine)
            signal_ranks(w, job, attempt, 15);
        return;
    case DO_SIGNAL:
        signal_ranks(w, job, attempt, e->signo);
        return;
    case DO_INCIDENT:
        if (chance(w) % 4)              /* else it never comes */
            plan(w, between(w, 1, 4000), AGENT_REPORTS, job, attempt, a->life)->a = e->generation;
        return;
    case DO_CLEANUP:
        ranks_kill(w, job, attempt);
        plan(w, between(w, 1, 30), CLEANUP_ENDS, job, attempt, a->life);
        node_may_fall(w, job, attempt, 60, 0);
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

/* As agent/attempt/attempt.c: events are stored before anything is done; it may die between any
 * two. */
static void feed(struct world *w, int job, int attempt, struct agent_input *in)
{
    struct agent *a = &w->agents[job][attempt];
    struct agent_effects out = { .n = 0 };
    const uint64_t life = a->life;
    w->cover.inputs++;
    in->now_ms = w->now;
    a->jitter = in->jitter = (double)(chance(w) % 1000) / 1000;
    agent_core_step(a->core, in, &out);
    for (int events = 1; events >= 0; events--) {
        for (int i = 0; i < out.n && a->life == life; i++) {
            if ((out.list[i].kind == DO_EVENT) != events)
                continue;
            if (fault(w, 3000, HARM_AGENT_CRASH))
                agent_dies(w, job, attempt);
            else
                perform(w, job, attempt, &out.list[i]);
        }
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
    (void)w;
}

void agent_dies(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    if (!a->alive)
        return;
    say(w, "! agent %d.%d dies with %d ranks", job, attempt, a->ranks_live);
    gone(w, job, attempt);
    if (w->truth[job].engine) {         /* they see the end of the control pipe */
        write_checkpoint(w, job, a);
        each_rank_ends(w, 10, 8000, job, attempt, HEEDS);
    }
}

/* Nobody saves anything. */
void agents_power_cut(struct world *w)
{
    for (int j = 0; j < w->jobs; j++) {
        for (int n = 1; n < ATTEMPTS; n++) {
            struct agent *a = &w->agents[j][n];
            memset(a->rank, 0, sizeof(a->rank));
            a->ranks_live = 0;
            if (a->alive)
                gone(w, j, n);
        }
    }
}

void agent_end(struct agent *a)
{
    agent_core_destroy(a->core);
    for (int64_t i = 0; i < a->spooled; i++)
        message_drop(a->spool[i]);
    free(a->spool);
}

void agent_connect(struct world *w, int job, int attempt, int conn)
{
    w->agents[job][attempt].conn = conn;
    post(w, true, job, conn, message_from(w, job, attempt, MSG_HELLO));
}

static void launched(struct world *w, int job, int attempt, const struct message *m)
{
    struct agent *a = &w->agents[job][attempt];
    const struct truth *t = &w->truth[job];
    a->sent = m->seq;
    if (a->launched) {
        pump(w, job, attempt);
        return;
    }
    a->launched = true;
    rules_launched(a, m);
    json_t *plan, *facts;
    a->excluded = m->excluded;
    gpu_assign(w, job, a, &plan, &facts);
    struct agent_input in = { .kind = INPUT_LAUNCH };
    in.launch = (struct agent_launch){
        .np = a->np, .engine = t->engine, .has_setup = t->has_setup,
        .rejoin = t->rejoin && a->np > 1, .plan = plan, .facts = facts,
        .budget = { .restarts = m->budget.max, .backoff_min_ms = m->budget.backoff_min_ms,
                    .backoff_max_ms = m->budget.backoff_max_ms,
                    .no_progress = m->budget.no_progress, .same_line = m->budget.same_line,
                    .same_line_ms = m->budget.same_line_ms },
        .history = { .failures_without_progress = m->failures, .same_fingerprint = m->same,
                     .last_step = m->last_step, .fingerprint = m->fingerprint },
    };
    if (fault(w, 60, HARM_REFUSED)) {
        in.launch.refusal = "the node has too few healthy GPUs";
        in.launch.cause = CAUSE_TOO_FEW_GPUS;
    }
    feed(w, job, attempt, &in);
    json_decref(plan);
    json_decref(facts);
}

static void stop(struct world *w, int job, int attempt, bool preempted)
{
    struct agent *a = &w->agents[job][attempt];
    struct agent_input in = { .kind = INPUT_STOP };
    if (preempted)
        a->preempted = true;
    else
        a->asked = true;
    in.stop.reason = preempted ? "the agent got SIGTERM" : "asked";
    in.stop.grace_ms = STOP_GRACE_MS;
    in.stop.checkpoint = true;
    in.stop.preempted = preempted;
    feed(w, job, attempt, &in);
}

static void hears(struct world *w, int job, int attempt, const struct message *m)
{
    struct agent *a = &w->agents[job][attempt];
    const struct wire_id ours = id_of(w, job, attempt), said = { job, m->attempt, m->nonce };
    if (!wire_id_same(&ours, &said)) {  /* the fence: the connection is closed */
        plan(w, 0, LINK_CUT, job, attempt, w->life)->a = a->conn;
        a->conn = 0;
        return;
    }
    if (m->attempt != attempt || strcmp(m->nonce, ours.nonce) != 0)
        broke(w, "agent %d.%d obeys a message to attempt %d (%s)", job, attempt, m->attempt, m->nonce);
    if (m->type == MSG_LAUNCH) {
        launched(w, job, attempt, m);
    } else if (m->type == MSG_ACK) {
        a->acked = m->seq > a->acked ? m->seq : a->acked;
        if (a->finished && a->acked >= a->spooled)
            gone(w, job, attempt);
    } else {
        if (!w->truth[job].asked_to_stop)
            broke(w, "agent %d.%d receives STOP, which nobody requested", job, attempt);
        stop(w, job, attempt, false);
    }
}

/* A message of another age reaches whoever is there. */
static void ghost(struct world *w, const struct happening *h)
{
    for (int n = ATTEMPTS - 1; n > 0; n--) {
        if (w->agents[h->job][n].alive && w->agents[h->job][n].conn) {
            hears(w, h->job, n, h->message);
            return;
        }
    }
}

/* ---- ranks ---- */

static void progress(struct world *w, int job, int attempt, int rank, json_t *line)
{
    struct agent *a = &w->agents[job][attempt];
    struct agent_input in = { .kind = INPUT_PROGRESS };
    in.progress.generation = a->generation;
    in.progress.rank = rank;
    in.progress.line = line;
    if (a->alive)
        feed(w, job, attempt, &in);
    json_decref(line);
}

static void spawned(struct world *w, int job, int attempt, const struct happening *h)
{
    struct agent *a = &w->agents[job][attempt];
    const struct truth *t = &w->truth[job];
    const int64_t pids[RANKS] = { 100, 101, 102, 103, 104, 105, 106, 107 };
    struct agent_input in = { .kind = h->b ? INPUT_SPAWN_FAILED : INPUT_SPAWNED };
    in.spawn.generation = h->a;
    in.spawn.pids = pids;
    in.spawn.text = "cannot fork";
    const uint64_t life = a->life;
    feed(w, job, attempt, &in);
    if (t->cursed && a->alive && chance(w) % 2) {
        agent_dies(w, job, attempt);
        return;
    }
    for (int r = 0; r < a->np && t->engine && a->life == life; r++)
        if (a->rank[r])
            progress(w, job, attempt, r,
                     json_pack("{s:s, s:i, s:i, s:I, s:I}", "ev", "started", "rank", r,
                               "world_size", a->np, "resume_step", (json_int_t)a->step, "steps",
                               (json_int_t)t->steps));
}

static void tell_step(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    const struct truth *t = &w->truth[job];
    if (!t->engine)
        return;                 /* a command says nothing that we understand */
    if (a->alive)
        rules_step(a, a->step);
    progress(w, job, attempt, 0, json_pack("{s:s, s:I, s:I, s:f}", "ev", "step", "step",
                                           (json_int_t)a->step, "steps", (json_int_t)t->steps,
                                           "loss", 0.5));
}

static void tell_checkpoint(struct world *w, int job, int attempt)
{
    struct agent *a = &w->agents[job][attempt];
    write_checkpoint(w, job, a);
    if (w->truth[job].engine)
        progress(w, job, attempt, 0,
                 json_pack("{s:s, s:I, s:s, s:i, s:i, s:s}", "ev", "checkpoint", "step",
                           (json_int_t)a->step, "path", "/c", "bytes", 1, "ms", 1, "digest", "x"));
}

static void fails(struct world *w, int job, int attempt)
{
    const int how = ending_draw(w), rank = (int)between(w, 0, w->agents[job][attempt].np - 1);
    rank_ends(w, 0, job, attempt, rank, how);
}

static void complete(struct world *w, int job, int attempt)
{
    w->truth[job].completed = true;
    if (w->truth[job].engine)
        progress(w, job, attempt, 0, json_pack("{s:s, s:I, s:f}", "ev", "done", "step",
                                               (json_int_t)w->agents[job][attempt].step, "loss",
                                               0.1));
    each_rank_ends(w, 1, 20, job, attempt, FINISHES);
}

static void tick(struct world *w, int job, int attempt, int generation)
{
    struct agent *a = &w->agents[job][attempt];
    struct truth *t = &w->truth[job];
    if (a->generation != generation || a->ranks_live < a->np)
        return;                 /* one of them is gone: the others wait in a collective */
    if (t->doomed) {
        rank_ends(w, 0, job, attempt, 0, CRASHES);
        return;
    }
    const int broken = gpu_fails(w, job, a);
    if (broken >= 0) {
        rank_ends(w, 0, job, attempt, broken, chance(w) % 2 ? ENDS_BY_GPU : ENDS_BY_SEGV);
        return;
    }
    if (fault(w, 60, HARM_RANK)) {
        fails(w, job, attempt);
        return;
    }
    node_may_fall(w, job, attempt, 100, 1000);
    if (a->fallen) {                    /* the others' connections break, or stand still */
        rank_ends(w, between(w, 0, NODE_NOTICED_MS), job, attempt, 0, ENDS_ALONE);
        return;
    }
    if (fault(w, 200, HARM_HANG)) {     /* nothing more happens, until the monitor sees that */
        a->deaf = true;
        plan(w, between(w, 1000, 9000), RANK_STANDS, job, attempt, a->life)->a = generation;
        return;
    }
    if (t->rejoin && a->np > 1 && fault(w, 150, HARM_PARTED)) {
        parting_begins(w, job, attempt);    /* should all be stuck, the monitor sees that */
        plan(w, between(w, 6000, 15000), RANK_STANDS, job, attempt, a->life)->a = generation;
        return;
    }
    const int64_t before = a->step;
    a->step = a->step + between(w, 1, 4) < t->steps ? a->step + between(w, 1, 4) : t->steps;
    if (a->step > t->steps)
        a->step = t->steps;
    if (a->step > t->most)
        t->most = a->step;
    tell_step(w, job, attempt);
    if (a->step / t->every > before / t->every || a->step == t->steps) {
        if (fault(w, 30, HARM_DISK)) {
            rank_ends(w, 0, job, attempt, 0, FULL_DISK);
            return;
        }
        tell_checkpoint(w, job, attempt);
    }
    if (a->step == t->steps)
        complete(w, job, attempt);
    else
        plan(w, between(w, 50, 400), RANK_TICK, job, attempt, 0)->a = generation;
}

static void ended(struct world *w, const struct happening *h)
{
    struct agent *a = &w->agents[h->job][h->attempt];
    const char *word;
    if ((uint64_t)a->generation != h->life || !a->rank[h->a])
        return;
    struct agent_input in = { .kind = INPUT_RANK_EXITED };
    in.exited = ending_exit(h->b, &word);
    in.exited.generation = a->generation;
    in.exited.rank = h->a;
    in.exited.pid = 100 + h->a;
    in.exited.after_ms = 1;
    if (w->truth[h->job].engine) {      /* a flight page, whose clock nobody promised us */
        in.exited.init_ms = between(w, 0, 300);
        in.exited.data_ms = between(w, 0, 2000);
        in.exited.checkpoint_ms = between(w, 0, 3000);
    }
    if (word)
        progress(w, h->job, h->attempt, h->a, json_pack("{s:s, s:s, s:s}", "ev", "failed", "cause",
                                                        word, "text", "it said so"));
    a->rank[h->a] = false;
    a->ranks_live--;
    if (h->b != FINISHES && a->ranks_live > 0 && !a->asked)
        parting_begins(w, h->job, h->attempt);
    if (a->alive)
        feed(w, h->job, h->attempt, &in);
}

/* ---- what happens ---- */

static void to_core(struct world *w, const struct happening *h)
{
    struct agent *a = &w->agents[h->job][h->attempt];
    struct agent_input in = { .now_ms = w->now };
    if (h->what == SETUP_ENDS) {
        in.kind = INPUT_SETUP_EXITED;
        in.exited.exit_code = fault(w, 6, HARM_SETUP) ? 1 : 0;
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == RANKS_SPAWNED) {
        spawned(w, h->job, h->attempt, h);
    } else if (h->what == AGENT_TIMER && a->timer_at && a->timer_at <= w->now) {
        in.kind = INPUT_TIMER;
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == CLEANUP_ENDS) {
        in.kind = INPUT_CLEANED;
        in.cleaned.clean = !fault(w, 100, HARM_SWEEP);
        in.cleaned.left = in.cleaned.clean ? "" : "pid 7 (x)";
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == RANK_STANDS) {
        in.kind = INPUT_HANG;
        in.hang.generation = h->a;
        in.hang.rank = (int)between(w, -1, a->np - 1);
        in.hang.init = chance(w) % 2;
        in.hang.text = "it stands still";
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == NODE_SILENT) {
        in.kind = INPUT_NODE_LOST;
        in.lost = node_is_lost(a);
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == AGENT_REPORTS) {
        in.kind = INPUT_REPORTED;
        in.reported.generation = h->a;
        feed(w, h->job, h->attempt, &in);
    } else if (h->what == AGENT_LINGERS && (a->finished || !a->launched)) {
        gone(w, h->job, h->attempt);
    }
}

void node_happens(struct world *w, const struct happening *h)
{
    struct agent *a = &w->agents[h->job][h->attempt];
    switch (h->what) {
    case AGENT_COMES:
        comes(w, h->job, h->attempt);
        return;
    case RANK_TICK:
        tick(w, h->job, h->attempt, h->a);
        return;
    case RANK_PARTS:
        if (parting_happens(w, h))
            progress(w, h->job, h->attempt, h->a,
                     json_pack("{s:s, s:s, s:s}", "ev", "detached", "cause", "nccl_error", "text",
                               "nobody answers"));
        return;
    case RANK_ENDS:
        ended(w, h);
        return;
    case AGENT_CRASH:                   /* whichever there is */
    case AGENT_PREEMPTED:
        for (int n = 1; n < ATTEMPTS; n++) {
            if (!w->agents[h->job][n].alive)
                continue;
            w->cover.harms[h->what == AGENT_CRASH ? HARM_AGENT_CRASH : HARM_PREEMPTED]++;
            if (h->what == AGENT_CRASH)
                agent_dies(w, h->job, n);
            else
                stop(w, h->job, n, true);
        }
        return;
    case AGENT_HEARS:
        if (h->a < 0)
            ghost(w, h);
        else if (a->alive && a->conn == h->a)
            hears(w, h->job, h->attempt, h->message);
        return;
    default:
        if (a->alive && a->life == h->life)
            to_core(w, h);
    }
}
