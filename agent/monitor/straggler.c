/* SPDX-License-Identifier: Apache-2.0 */
/* straggler.c - see straggler.h */
#include "agent/monitor/straggler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/json_make.h"

static const enum flight_phase own_work[] = {PHASE_DATA, PHASE_FORWARD, PHASE_BACKWARD,
                                             PHASE_OPTIMIZER};
enum { OWN = sizeof(own_work) / sizeof(own_work[0]), TOLD_RANKS = 64 };

/* A rank's counters when the window began, and its times per step in the last full window. */
struct counts {
    uint64_t step, wait_ns, own_ns[OWN];
    double   own_ms[OWN], all_ms, wait_ms;
};

struct straggler {
    int            n;
    int64_t since_ms; /* start of the window; 0 = none */
    double         step_ms;
    struct counts *rank;
    int suspect; /* candidate from the last window, -1 = none */
    int slow;    /* reported straggler, -1 = none */
    int            percent;
    enum flight_phase phase;
    char           text[280];
};

int straggler_create(struct straggler **out, int ranks, struct err *err)
{
    struct straggler *s = calloc(1, sizeof(*s));
    if (s)
        s->rank = calloc((size_t)(ranks > 0 ? ranks : 1), sizeof(*s->rank));
    if (!s || !s->rank) {
        free(s);
        return err_set(err, ERR_MEMORY, "no memory to compare %d ranks", ranks);
    }
    s->n = ranks;
    straggler_begin(s);
    *out = s;
    return 0;
}

void straggler_destroy(struct straggler *s)
{
    if (s)
        free(s->rank);
    free(s);
}

void straggler_begin(struct straggler *s)
{
    s->since_ms = 0;
    s->suspect = s->slow = -1;
    s->text[0] = '\0';
}

static void begin_window(struct straggler *s, const struct flight_page *pages, int64_t now_ms)
{
    s->since_ms = now_ms;
    for (int i = 0; i < s->n; i++) {
        s->rank[i].step = flight_step(&pages[i]);
        s->rank[i].wait_ns = pages[i].wait_ns;
        for (int k = 0; k < OWN; k++)
            s->rank[i].own_ns[k] = pages[i].phase_ns[own_work[k]];
    }
}

/* False: too few steps yet, or a rank has restarted. */
static bool end_window(struct straggler *s, const struct flight_page *pages, int64_t now_ms)
{
    for (int i = 0; i < s->n; i++)
        if (flight_step(&pages[i]) < s->rank[i].step + STRAGGLER_STEPS)
            return false;
    for (int i = 0; i < s->n; i++) {
        struct counts *c = &s->rank[i];
        double steps = (double)(flight_step(&pages[i]) - c->step);
        c->all_ms = 0;
        c->wait_ms = (double)(pages[i].wait_ns - c->wait_ns) / steps / 1e6;
        for (int k = 0; k < OWN; k++) {
            c->own_ms[k] = (double)(pages[i].phase_ns[own_work[k]] - c->own_ns[k]) / steps / 1e6;
            c->all_ms += c->own_ms[k];
        }
        s->step_ms = (double)(now_ms - s->since_ms) / steps;
    }
    return true;
}

/* The phase with the largest excess over the next slowest rank. */
static enum flight_phase worst_phase(const struct counts *slow, const struct counts *next)
{
    int worst = 0;
    for (int k = 1; k < OWN; k++)
        if (slow->own_ms[k] - next->own_ms[k] > slow->own_ms[worst] - next->own_ms[worst])
            worst = k;
    return own_work[worst];
}

/* The straggler of this window, or -1. */
static int find(struct straggler *s, int *next)
{
    int slow = -1;
    *next = -1;
    for (int i = 0; i < s->n; i++) {
        if (slow < 0 || s->rank[i].all_ms > s->rank[slow].all_ms) {
            *next = slow;
            slow = i;
        } else if (*next < 0 || s->rank[i].all_ms > s->rank[*next].all_ms) {
            *next = i;
        }
    }
    if (*next < 0 || s->step_ms <= 0)
        return -1;
    s->percent = (int)(100 * (s->rank[slow].all_ms - s->rank[*next].all_ms) / s->step_ms);
    return s->percent > STRAGGLER_PERCENT ? slow : -1;
}

static void say(struct straggler *s, int next, const char *node)
{
    const struct counts *a = &s->rank[s->slow], *b = &s->rank[next];
    s->phase = worst_phase(a, b);
    snprintf(s->text, sizeof(s->text),
             "rank %d%s%.60s is a straggler: without it a step would take %d %% less; its own work "
             "takes %.1f ms, that of the next slowest rank %.1f ms, mostly in %s",
             s->slow, node[0] ? " on " : "", node, s->percent, a->all_ms, b->all_ms,
             flight_phase_name(s->phase));
}

bool straggler_look(struct straggler *s, const struct flight_page *pages, const char *const *nodes, int64_t now_ms)
{
    if (s->n < 2)
        return false;
    for (int i = 0; i < s->n; i++)
        if (!pages[i].pid || flight_step(&pages[i]) < s->rank[i].step)
            s->since_ms = 0;
    if (s->since_ms == 0) {
        begin_window(s, pages, now_ms);
        return false;
    }
    if (now_ms - s->since_ms < STRAGGLER_WINDOW_MS || !end_window(s, pages, now_ms))
        return false;
    int next, was = s->slow, found = find(s, &next);
    if (found >= 0 && found == s->suspect) {
        s->slow = found;
        say(s, next, nodes ? nodes[found] : "");
    } else if (found < 0 && s->suspect < 0) {
        s->slow = -1;
        s->text[0] = '\0';
    }
    s->suspect = found;
    begin_window(s, pages, now_ms);
    return s->slow != was;
}

json_t *straggler_body(const struct straggler *s)
{
    json_t *own = json_array(), *wait = json_array();
    for (int i = 0; i < s->n && i < TOLD_RANKS; i++) {
        json_array_append_new(own, json_real(s->rank[i].all_ms));
        json_array_append_new(wait, json_real(s->rank[i].wait_ms));
    }
    bool slow = s->slow >= 0;
    return json_make("{s:o, s:o, s:i, s:s, s:f, s:o, s:o}", "rank",
                     slow ? json_integer(s->slow) : json_null(), "phase",
                     slow ? json_text(flight_phase_name(s->phase)) : json_null(), "percent",
                     slow ? s->percent : 0, "text", s->text, "step_ms", s->step_ms, "own_ms", own,
                     "wait_ms", wait);
}
