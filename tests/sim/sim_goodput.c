/* SPDX-License-Identifier: Apache-2.0 */
/* sim_goodput.c - the share of a large machine's time that becomes steps, by failure policy
 *
 *   sim_goodput [--nodes N] [--mtbf D] [--days N] [--every D] [--write D] [--repair D] [--seeds N]
 *               [--policy NAME]
 *   sim_goodput WORLDS           a small machine, in seconds: no rung of the ladder does harm
 *
 * One job on N nodes, a rank for each, which fail at random, each on average once in `mtbf` of its
 * time, under every policy at the same times: its rank crashes, hangs, loses its GPU, or the node is gone. The
 * decisions are those of agent_core and job_core, the account of time is the ledger that `jobctl show` prints; what is
 * played is how long things take.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/agent_core.h"
#include "agent/core/agent_effects.h"
#include "controller/job/job_core.h"
#include "controller/spec/spec_units.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define NONCE        "0123456789abcdef"

enum { SECOND = 1000, HOUR = 3600 * SECOND, DAY = 24 * HOUR };
enum { NODES_MOST = 20000 };

/* Each has all that the one before has. */
static const struct policy {
    const char *name, *what;
    int64_t     notice_ms;  /* that a rank hangs */
    bool        memory;     /* ranks go on from memory, where their nodes live */
    bool        smaller;    /* without the node that failed, until it is back */
} policies[] = {
    { "timeout", "a hang ends with the time-out of a collective, 10 minutes", 600 * SECOND, false,
      false },
    { "seconds", "a hang is seen after 5 s", 5 * SECOND, false, false },
    { "memory", "ranks go on from the snapshot in memory", 5 * SECOND, true, false },
    { "smaller", "without the GPU or node that failed, same global batch", 5 * SECOND, true, true },
};

/* How a node fails, in percent. */
enum kind { CRASHES, HANGS, LOSES_ITS_GPU, IS_GONE };
static const int share[] = { [CRASHES] = 50, [HANGS] = 20, [LOSES_ITS_GPU] = 20, [IS_GONE] = 10 };

static struct machine {
    int64_t nodes, seeds;
    int64_t mtbf, length, every, write, repair;
    int64_t step, agents, cold, warm, grace;    /* a step; agents up; ranks up, from disk or memory */
} machine = { .nodes = 2000, .seeds = 3, .mtbf = 5000LL * HOUR, .length = 30LL * DAY,
              .every = 600 * SECOND, .write = 15 * SECOND, .repair = 4 * HOUR, .step = 10 * SECOND,
              .agents = 20 * SECOND, .cold = 120 * SECOND, .warm = 20 * SECOND,
              .grace = 2 * SECOND };

struct run {
    const struct machine *m;
    const struct policy *policy;
    uint64_t          chance;
    int64_t           now, end;
    struct job_core   job;
    struct agent_core *core;
    int               np, generation, alive;
    bool             *gone;     /* ranks of the generation that have ended */
    int64_t           disk, memory;     /* steps that could be gone on from; memory -1: none */
    int64_t           best;
    int64_t           back_at[NODES_MOST];      /* a node is broken until then */
    int               rank_on[NODES_MOST];      /* in this attempt, -1: none */
    struct {                            /* the next fault; the same ones for every policy */
        uint64_t  chance;
        int64_t   at;
        int64_t   node;
        enum kind kind;
    } fault;
    int64_t           saved_ms;         /* the generation's checkpoints took so long */
    int64_t           init_ms;
    /* what the agent asked for last */
    bool              spawn, sweep, report, stop, over;
    int64_t           timer_at;
};

static uint64_t dice(uint64_t *chance)
{
    uint64_t z = (*chance += UINT64_C(0x9e3779b97f4a7c15));     /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double uniform(uint64_t *chance)
{
    return ((double)(dice(chance) >> 11) + 0.5) / 9007199254740992.0;
}

/* ---- the controller ---- */

static void decide(struct run *r, enum core_input_kind kind, const char *event, const char *text, json_t *body)
{
    struct err err = { 0 };
    struct core_output out = { 0 };
    const struct core_input in = { .kind = kind, .at_ms = r->now, .random = dice(&r->chance),
                                   .attempt = r->job.attempt, .nonce = NONCE, .event = event,
                                   .text = text, .body = body };
    if (job_core_step(&r->job, &in, &out, &err) < 0) {
        fprintf(stderr, "sim_goodput: %s: %s\n", event ? event : "input", err.text);
        exit(1);
    }
    core_output_fini(&out);
    json_decref(body);
}

/* ---- the agent ---- */

static void feed(struct run *r, struct agent_input in)
{
    struct agent_effects out = { .n = 0 };
    in.now_ms = r->now;
    in.jitter = uniform(&r->chance);
    agent_core_step(r->core, &in, &out);
    for (int i = 0; i < out.n; i++) {
        const struct agent_effect *e = &out.list[i];
        r->spawn |= e->kind == DO_SPAWN;
        r->sweep |= e->kind == DO_CLEANUP;
        r->report |= e->kind == DO_INCIDENT;
        r->stop |= e->kind == DO_SIGNAL || e->kind == DO_CONTROL;
        r->over |= e->kind == DO_FINISH;
        if (e->kind == DO_SPAWN)
            r->generation = e->generation;
        else if (e->kind == DO_TIMER)
            r->timer_at = e->at_ms;
        else if (e->kind == DO_EVENT)
            decide(r, CORE_AGENT_EVENT, e->event, NULL, json_incref(e->body));
    }
    agent_effects_fini(&out);
}

static void say(struct run *r, json_t *line)
{
    struct agent_input in = { .kind = INPUT_PROGRESS };
    in.progress.generation = r->generation;
    in.progress.line = line;
    feed(r, in);
    json_decref(line);
}

static void say_step(struct run *r, const char *what, int64_t step)
{
    say(r, json_pack("{s:s, s:I, s:s}", "ev", what, "step", (json_int_t)step, "path", "/c"));
    if (step > r->best)
        r->best = step;
}

static void ends(struct run *r, int rank, struct agent_exit e)
{
    if (r->gone[rank])
        return;
    r->gone[rank] = true;
    r->alive--;
    e.generation = r->generation;
    e.rank = rank;
    e.pid = rank + 1;
    e.init_ms = r->init_ms;
    e.checkpoint_ms = r->saved_ms;
    feed(r, (struct agent_input){ .kind = INPUT_RANK_EXITED, .exited = e });
}

static void all_end(struct run *r, struct agent_exit e)
{
    for (int rank = 0; rank < r->np; rank++)
        ends(r, rank, e);
}

/* ---- the machine ---- */

/* Ranks on all nodes that are up. */
static void use_nodes(struct run *r)
{
    r->np = 0;
    for (int64_t i = 0; i < r->m->nodes; i++)
        r->rank_on[i] = r->back_at[i] <= r->now ? r->np++ : -1;
}

static enum kind some_kind(uint64_t *chance)
{
    int at = (int)(dice(chance) % 100);
    for (size_t k = 0; k < ARRAY_LEN(share); k++)
        if ((at -= share[k]) < 0)
            return (enum kind)k;
    return CRASHES;
}

/* The next fault that meets a rank: idle nodes and broken ones do not fail. */
static void foresee(struct run *r)
{
    while (r->fault.at <= r->now || r->rank_on[r->fault.node] < 0) {
        const double mean = (double)r->m->mtbf / (double)r->m->nodes;
        r->fault.at += 1 + (int64_t)(-mean * log(uniform(&r->fault.chance)));
        r->fault.node = (int64_t)(dice(&r->fault.chance) % (uint64_t)r->m->nodes);
        r->fault.kind = some_kind(&r->fault.chance);
    }
}

/* With fewer ranks each step of the same global batch takes longer. */
static int64_t step_ms(const struct run *r)
{
    return (r->m->step * r->m->nodes + r->np - 1) / r->np;
}

/* Steps and checkpoints until `until`; the time of the last step is told. */
static void work(struct run *r, int64_t step, int64_t until)
{
    const int64_t took = step_ms(r);
    int64_t save_at = r->now + r->m->every;
    bool told = step >= r->best;
    while (r->now + took <= until) {
        r->now += took;
        step++;
        if (!told && step > r->best) {      /* from here on it is new */
            r->now -= took;
            say_step(r, "step", step - 1);
            r->now += took;
            told = true;
        }
        if (r->now < save_at)
            continue;
        say_step(r, "step", step);
        if (r->now + r->m->write > until)
            break;
        r->now += r->m->write;
        r->saved_ms += r->m->write;
        r->disk = step;
        say_step(r, "checkpoint", step);
        save_at = r->now + r->m->every;
    }
    say_step(r, "step", step);
    r->memory = r->policy->memory ? step : -1;
    if (r->now < until)
        r->now = until;
}

/* What was in its memory is lost with it. */
static void break_node(struct run *r)
{
    r->back_at[r->fault.node] = r->now + r->m->repair;
    r->memory = -1;
}

/* A rank, or its node, fails. False: the attempt is lost with it. */
static bool fail(struct run *r)
{
    const int rank = r->rank_on[r->fault.node];
    switch (r->fault.kind) {
    case CRASHES:
        ends(r, rank, (struct agent_exit){ .signalled = true, .signo = 11 });
        return true;
    case HANGS:
        r->now += r->policy->notice_ms;
        feed(r, (struct agent_input){ .kind = INPUT_HANG,
                                      .hang = { .generation = r->generation, .rank = rank,
                                                .text = "a rank stands still" } });
        return true;
    case LOSES_ITS_GPU:
        break_node(r);
        ends(r, rank, (struct agent_exit){ .exit_code = EXIT_GPU_FAULT });
        return true;
    default:
        break_node(r);
        return false;
    }
}

/* One generation, from its ranks' start to what ends it. */
static bool live(struct run *r, int64_t *pids)
{
    const int64_t from = r->memory >= 0 ? r->memory : r->disk;
    r->init_ms = r->memory >= 0 ? r->m->warm : r->m->cold;
    r->saved_ms = 0;
    r->alive = r->np;
    memset(r->gone, 0, (size_t)r->np * sizeof(*r->gone));
    feed(r, (struct agent_input){ .kind = INPUT_SPAWNED,
                                  .spawn = { .generation = r->generation, .pids = pids,
                                             .snapshot_step = from } });
    foresee(r);
    const int64_t until = r->fault.at < r->end ? r->fault.at : r->end;
    if (r->now + r->init_ms < until) {
        r->now += r->init_ms;
        say(r, json_pack("{s:s, s:I}", "ev", "started", "resume_step", (json_int_t)from));
        work(r, from, until);
    } else {
        r->init_ms = until - r->now;
        r->now = until;
    }
    return r->now >= r->end || fail(r);
}

/* What the agent asked for happens: ranks end, a sweep is clean, time passes. */
static bool obey(struct run *r, int64_t *pids)
{
    if (r->spawn) {
        r->spawn = false;
        return live(r, pids);
    }
    if (r->report) {
        r->report = false;
        feed(r, (struct agent_input){ .kind = INPUT_REPORTED,
                                      .reported = { .generation = r->generation } });
    } else if (r->stop && r->alive > 0) {
        r->stop = false;
        r->now += r->m->grace;
        all_end(r, (struct agent_exit){ .exit_code = EXIT_ABORTED });
    } else if (r->sweep) {
        r->sweep = false;
        r->now += 100;
        feed(r,
             (struct agent_input){ .kind = INPUT_CLEANED, .cleaned = { .clean = true, .left = "" } });
    } else if (r->timer_at) {
        r->now = r->timer_at > r->now ? r->timer_at : r->now;
        feed(r, (struct agent_input){ .kind = INPUT_TIMER });
    }
    return true;
}

static void launch(struct run *r)
{
    json_t *ranks = json_array(), *plan;
    char uuid[32];
    for (int i = 0; i < r->np; i++) {
        snprintf(uuid, sizeof(uuid), "GPU-%d", i);
        json_array_append_new(ranks, json_pack("{s:s}", "gpu", uuid));
    }
    plan = json_pack("{s:o}", "ranks", ranks);
    const struct agent_launch launch = {
        .np = r->np, .engine = true, .plan = plan,
        .budget = { .restarts = r->job.rules.max, .backoff_min_ms = r->job.rules.backoff_min_ms,
                    .backoff_max_ms = r->job.rules.backoff_max_ms,
                    .no_progress = r->job.rules.no_progress },
        .history = { .failures_without_progress = r->job.failures,
                     .same_fingerprint = r->job.same, .last_step = r->job.best,
                     .fingerprint = r->job.fingerprint },
    };
    feed(r, (struct agent_input){ .kind = INPUT_LAUNCH, .launch = launch });
    json_decref(plan);
}

/* When enough nodes are up: all, or those that there are. */
static void wait_for_nodes(struct run *r)
{
    if (r->job.not_before_ms > r->now)
        r->now = r->job.not_before_ms;
    for (int64_t i = 0; i < r->m->nodes && !r->policy->smaller; i++)
        if (r->back_at[i] > r->now)
            r->now = r->back_at[i];
    if (r->now > r->end)
        r->now = r->end;
}

static void attempt(struct run *r, int64_t *pids)
{
    use_nodes(r);
    r->spawn = r->sweep = r->report = r->stop = r->over = false;
    r->timer_at = 0;
    if (agent_core_create(&r->core, NULL) < 0)
        abort();
    decide(r, CORE_PLACE, NULL, NULL, json_pack("{s:s, s:s}", "nonce", NONCE, "node", "all"));
    r->now += r->m->agents;
    decide(r, CORE_AGENT_UP, NULL, NULL, json_object());
    launch(r);
    while (!r->over && r->now < r->end) {
        if (!obey(r, pids)) {
            decide(r, CORE_AGENT_LOST, NULL, "its node is gone", NULL);
            break;
        }
    }
    agent_core_destroy(r->core);
    r->core = NULL;
}

struct outcome {
    double   effective;         /* steps that were kept, of those that a machine without faults makes */
    struct goodput spent;
    int64_t  attempts;
    bool     gave_up;
};

static void play(struct outcome *out, const struct machine *m, const struct policy *p, uint64_t seed)
{
    struct run *r = calloc(1, sizeof(*r));
    int64_t *pids = calloc((size_t)m->nodes, sizeof(*pids));
    bool *gone = calloc((size_t)m->nodes, sizeof(*gone));
    if (!r || !pids || !gone)
        abort();
    *r = (struct run){ .m = m, .policy = p, .chance = seed, .now = DAY, .end = DAY + m->length,
                       .memory = -1, .gone = gone, .fault = { .chance = ~seed, .at = DAY } };
    job_core_init(&r->job, 1);
    decide(r, CORE_SUBMIT, NULL, NULL,
           json_pack("{s:s, s:{s:i, s:i, s:[i, i]}}", "name", "x", "retry", "max", 10,
                     "no_progress", 3, "backoff_ms", 5 * SECOND, 300 * SECOND));
    while (r->now < r->end && r->job.state != JOB_DONE) {
        wait_for_nodes(r);
        if (r->now < r->end)
            attempt(r, pids);
    }
    job_core_spent(&out->spent, &r->job, r->now);
    out->effective = (double)r->best * (double)m->step / (double)m->length;
    out->attempts = r->job.attempt;
    out->gave_up = r->job.state == JOB_DONE;
    if (!goodput_adds_up(&out->spent))
        exit(fprintf(stderr, "sim_goodput: the ledger does not add up\n") > 0);
    free(gone);
    free(pids);
    free(r);
}

/* The mean of the seeds, printed as a row of a table. */
static double judge(const struct machine *m, const struct policy *p, bool print)
{
    struct outcome sum = { 0 }, one;
    int gave_up = 0;
    for (int64_t s = 1; s <= m->seeds; s++) {
        play(&one, m, p, (uint64_t)s);
        sum.effective += one.effective / (double)m->seeds;
        sum.attempts += one.attempts;
        gave_up += one.gave_up;
        goodput_add(&sum.spent, &one.spent);
    }
    if (!print)
        return sum.effective;
    printf("| %s | %.1f %% |", p->name, 100 * sum.effective);
    for (int b = 0; b < BUCKETS; b++)
        if (b != BUCKET_DATA && b != BUCKET_DISK && b != BUCKET_PAUSED)
            printf(" %.2f |", 100 * (double)sum.spent.ms[b] / (double)sum.spent.rank_ms);
    printf(" %.1f |%s\n", (double)sum.attempts / (double)m->seeds, gave_up ? " (it gave up)" : "");
    return sum.effective;
}

/* A small machine that fails often: every rung is worth its while. */
static int self_test(void)
{
    struct machine m = machine;
    static const double worth[ARRAY_LEN(policies)] = { 0.2, 0.002, 0.01, 0.1 };
    double before = 0;
    int bad = 0;
    m.nodes = 32;
    m.mtbf = 80LL * HOUR;
    m.length = 10LL * DAY;
    m.seeds = 8;
    printf("goodput of 32 nodes, each failing every 80 hours:");
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        double now = judge(&m, &policies[i], false);
        printf(" %s %.1f %%%s", policies[i].name, 100 * now, i + 1 < ARRAY_LEN(policies) ? "," : "\n");
        bad |= now < before + worth[i] || now >= 1;
        before = now;
    }
    if (bad)
        printf("sim_goodput: a rung of the ladder does harm\n");
    return bad;
}

static int option(const char *name, const char *value, const char **only)
{
    static const struct {
        const char *name;
        int64_t    *count, *duration;
    } options[] = {
        { "--nodes", &machine.nodes, NULL },   { "--seeds", &machine.seeds, NULL },
        { "--days", &machine.length, NULL },   { "--mtbf", NULL, &machine.mtbf },
        { "--every", NULL, &machine.every },   { "--write", NULL, &machine.write },
        { "--repair", NULL, &machine.repair },
    };
    struct err err = { 0 };
    double seconds;
    if (strcmp(name, "--policy") == 0) {
        *only = value;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        if (strcmp(options[i].name, name) != 0)
            continue;
        if (options[i].count) {
            int64_t n = strtoll(value, NULL, 10);
            *options[i].count = options[i].count == &machine.length ? n * DAY : n;
            return n > 0 ? 0 : -1;
        }
        if (spec_duration_parse(&seconds, value, &err) < 0)
            return -1;
        *options[i].duration = (int64_t)(seconds * SECOND);
        return 0;
    }
    return -1;
}

int main(int argc, char **argv)
{
    const char *only = "all";
    bool any = false;
    if (argc == 2 && strtol(argv[1], NULL, 10) > 0)
        return self_test();
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 >= argc || option(argv[i], argv[i + 1], &only) < 0 || machine.nodes > NODES_MOST) {
            fprintf(stderr, "usage: sim_goodput [--nodes N] [--mtbf 5000h] [--days N] [--every 10m] "
                    "[--write 15s] [--repair 4h] [--seeds N] [--policy NAME]; N of nodes at most %d\n",
                    NODES_MOST);
            return 2;
        }
    }
    printf("| policy | effective | productive | replayed | init | checkpoint | hang | restart | "
           "queued | attempts |\n|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < ARRAY_LEN(policies); i++) {
        if (strcmp(only, "all") != 0 && strcmp(only, policies[i].name) != 0)
            continue;
        judge(&machine, &policies[i], true);
        any = true;
    }
    for (size_t i = 0; any && i < ARRAY_LEN(policies); i++)
        fprintf(stderr, "%s%s: %s\n", i ? "  and " : "  ", policies[i].name, policies[i].what);
    if (!any)
        fprintf(stderr, "sim_goodput: no such policy: \"%s\"; there are all, timeout, seconds, memory "
                "and smaller\n", only);
    return any ? 0 : 2;
}
