/* SPDX-License-Identifier: Apache-2.0 */
/* sim_control.c - seeds through a world of faults; after each step the invariants hold
 *
 *   sim_control SEEDS            seeds 1..SEEDS, a line for each that fails
 *   sim_control --seed N [-v]    one of them, told step by step; the same every time
 *
 * No job is lost, none runs twice, every event is applied once and in order,
 * every waiting job has a reason, a finished job is final and nothing of it is
 * left, a restart is a replay, and no more slots are given than there are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_core.h"
#include "tests/sim/world.h"

static void submit(struct world *w, int job)
{
    struct truth *t = &w->truth[job];
    *t = (struct truth){ .steps = between(w, 20, 200), .np = (int)between(w, 1, RANKS),
                         .engine = chance(w) % 2, .has_setup = chance(w) % 3 == 0,
                         .doomed = chance(w) % 6 == 0 };
    w->after[job] = job > 0 && chance(w) % 4 == 0 ? (int)between(w, 0, job - 1) : -1;
    bool held = chance(w) % 8 == 0;
    struct happening *h = plan(w, between(w, 0, 20000), PERSON, job, 0, 0);
    h->body = json_pack("{s:s, s:I, s:b, s:{s:i, s:i, s:[i, i]}}", "name", "x", "priority",
                        (json_int_t)between(w, -1, 1), "held", (int)held, "retry", "max", 8,
                        "no_progress", 3, "backoff_ms", 500, 4000);
    if (held || chance(w) % 8 == 0)
        plan(w, between(w, 25000, 60000), PERSON, job, 0, 0)->a = 3;
    if (chance(w) % 4 == 0) {
        h = plan(w, between(w, 1000, 90000), PERSON, job, 0, 0);
        h->a = 1;
        h->body = json_pack("{s:s, s:b, s:b}", "reason", "cancelled", "limit",
                            chance(w) % 4 == 0, "now", 0);
    }
}

static void begin(struct world *w, uint64_t seed, bool verbose)
{
    *w = (struct world){ .seed = seed, .chance = seed, .verbose = verbose };
    for (int j = 0; j < JOBS; j++)
        submit(w, j);
    for (int i = 0; i < 4; i++)
        plan(w, between(w, 1000, FAULTS_UNTIL_MS), HUB_CRASH, 0, 0, 0);
    for (int i = 0; i < 12; i++)
        plan(w, between(w, 1000, 90000), AGENT_CRASH, (int)between(w, 0, JOBS - 1), 0, 0);
    if (chance(w) % 3 == 0)
        plan(w, between(w, 1000, FAULTS_UNTIL_MS), CLOCK_JUMPS, 0, 0, 0);
    plan(w, 0, HUB_START, 0, 0, 0);
}

static bool all_done(const struct world *w)
{
    for (int j = 0; j < JOBS; j++)
        if (!w->store[j].done)
            return false;
    return true;
}

/* What must hold whatever just happened. */
static void check(struct world *w)
{
    for (int j = 0; j < JOBS; j++) {
        int live = 0;
        for (int n = 1; n < ATTEMPTS; n++)
            live += w->agents[j][n].ranks_live > 0;
        if (live > 1)
            broke(w, "job %d runs in %d attempts at once", j, live);
        if (w->store[j].done && live > 0)
            broke(w, "job %d is done and still runs", j);
        const struct job_core *c = &w->store[j].latest;
        if (c->productive_ms < 0 || (!w->jumped && c->started_ms &&
                                     c->productive_ms > wall(w) - c->started_ms))
            broke(w, "job %d was productive for %lld ms of %lld", j, (long long)c->productive_ms,
                  (long long)(wall(w) - c->started_ms));
    }
}

static void jump(struct world *w)
{
    w->skew += between(w, -3600000, 3600000);
    w->jumped = true;
    say(w, "! the clock jumps to %+lld s", (long long)w->skew / 1000);
    if (w->up)
        plan(w, 1000, HUB_PASS, 0, 0, w->life);
}

static void end(struct world *w)
{
    for (size_t i = 0; i < w->count; i++)
        json_decref(w->heap[i].body);
    free(w->heap);
    for (int j = 0; j < JOBS; j++) {
        json_decref(w->store[j].events);
        for (int n = 1; n < ATTEMPTS; n++) {
            agent_core_destroy(w->agents[j][n].core);
            json_decref(w->agents[j][n].spool);
        }
    }
}

/* True when every invariant held to the end. */
static bool live(struct world *w, uint64_t seed, bool verbose)
{
    struct happening h;
    begin(w, seed, verbose);
    while (!w->broken[0] && !all_done(w) && next(w, &h)) {
        if (h.what == CLOCK_JUMPS)
            jump(w);
        else if (h.what <= PERSON || h.what == LINK_CUT)
            hub_happens(w, &h);
        else
            node_happens(w, &h);
        json_decref(h.body);
        check(w);
        if (w->now > ALL_DONE_BY_MS)
            broke(w, "a job is lost: not all are done after an hour");
    }
    for (int j = 0; j < JOBS && !w->broken[0]; j++)
        if (!w->store[j].done)
            broke(w, "job %d is lost: nothing will ever happen to it again (%s)", j,
                  w->store[j].events ? job_state_name(w->store[j].latest.state) : "not submitted");
    if (w->broken[0])
        printf("sim_control: seed %llu, at %.3f s: %s\n  again: sim_control --seed %llu -v\n",
               (unsigned long long)seed, (double)w->now / 1000, w->broken,
               (unsigned long long)seed);
    return !w->broken[0];
}

int main(int argc, char **argv)
{
    static struct world w;
    uint64_t first = 1, last = 50;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0)
            verbose = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            first = last = strtoull(argv[++i], NULL, 10);
        else
            last = strtoull(argv[i], NULL, 10);
    }
    long failed = 0, events = 0, crashes = 0, ends[RESULTS] = { 0 };
    for (uint64_t seed = first; seed <= last; seed++) {
        failed += !live(&w, seed, verbose);
        events += w.events;
        crashes += w.crashes;
        for (int j = 0; j < JOBS; j++)
            ends[w.store[j].latest.result]++;
        end(&w);
    }
    printf("sim_control: %llu seeds, %ld failed; %ld events, %ld crashes; %ld succeeded, %ld "
           "failed, %ld cancelled\n", (unsigned long long)(last - first + 1), failed, events,
           crashes, ends[RESULT_SUCCEEDED], ends[RESULT_FAILED], ends[RESULT_CANCELLED]);
    return failed ? 1 : 0;
}
