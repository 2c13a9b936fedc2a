/* SPDX-License-Identifier: Apache-2.0 */
/* hang_detector.c - see hang_detector.h */
#include "agent/monitor/hang_detector.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { WHO = 64 }; /* "rank 3 on NAME" */

enum {
    BUCKETS = 64,       /* the first one covers all sizes */
    TIMES = 4,          /* deadline = this factor x 99.9th percentile */
    STOPPED_MS = 5000,  /* deadline of a process known to be stopped */
    STEP_COLLS = 50,    /* this many collectives count as a step */
    LOOK_MAX_MS = 1000, /* longest quiet time counted between two looks: the agent itself, or
                           the whole machine, may have been suspended */
};

/* Minimum deadline of a phase, in s; 0: none. Pages of commands show less, and work between two
 * steps (validation, saving) may look like part of a step. */
static const struct {
    int  engine_s, command_s;
    bool of_step; /* hang.step applies to this phase */
    bool files;   /* file I/O in this phase counts as progress */
} phases[FLIGHT_PHASES] = {
    [PHASE_INIT] = {300, 300, false, true},
    [PHASE_DATA] = {20, 300, true, true},
    [PHASE_FORWARD] = {5, 300, true, false},
    [PHASE_BACKWARD] = {5, 300, true, false},
    [PHASE_REDUCE] = {5, 300, true, false},
    [PHASE_OPTIMIZER] = {5, 300, true, false},
    [PHASE_CHECKPOINT] = {600, 1800, false, true},
    [PHASE_VALIDATE] = {600, 1800, false, true},
    [PHASE_IDLE] = {0, 0, false, false},
};

/* Durations learned for batches of one size. */
struct bucket {
    uint64_t size; /* height << 32 | width; 0: all sizes */
    uint64_t hist[FLIGHT_PHASES][FLIGHT_BINS];
    uint64_t before_ns[FLIGHT_PHASES]; /* 99.9th percentile from earlier attempts, 0 = not known */
};

/* State of a rank at the last look. */
struct seen {
    bool begun;       /* there was a look */
    uint64_t mark[9]; /* values that change with any activity */
    int64_t  quiet_ms;
    bool at_work, stepped; /* has left init; has completed a step since */
    uint64_t base_step, base_coll;
    uint64_t learned_seq; /* ring entries up to here are counted */
    uint64_t size;        /* batch size at that entry */
};

struct hang_detector {
    struct hang_detector_rules rules;
    int                        n;
    int64_t                    looked_ms;
    struct seen               *seen;
    int                        buckets;
    struct bucket              bucket[BUCKETS];
};

/* --- learning --------------------------------------------------------------------------- */

static struct bucket *find_bucket(struct hang_detector *h, uint64_t size, bool add)
{
    for (int i = 0; i < h->buckets; i++)
        if (h->bucket[i].size == size)
            return &h->bucket[i];
    if (!add || h->buckets == BUCKETS)
        return &h->bucket[0];
    h->bucket[h->buckets].size = size;
    return &h->bucket[h->buckets++];
}

static void learn_one(struct hang_detector *h, uint64_t size, uint64_t phase, uint64_t took_ns)
{
    if (phase >= FLIGHT_PHASES)
        return;
    int bin = flight_bin(took_ns);
    struct bucket *b = find_bucket(h, size, true);
    h->bucket[0].hist[phase][bin]++;
    if (b != &h->bucket[0])
        b->hist[phase][bin]++;
}

/* Takes the ring entries since the last look: each phase lasted until the next began. Nothing is
 * learned before the end of the first step. */
static void learn(struct hang_detector *h, struct seen *s, const struct flight_page *p)
{
    uint64_t next = p->ring_next, from = s->learned_seq ? s->learned_seq : 1;
    if (next > FLIGHT_RING && from < next - FLIGHT_RING)
        from = next - FLIGHT_RING; /* the entries in between are lost */
    for (uint64_t seq = from; seq + 1 < next; seq++) {
        const struct flight_entry *e = &p->ring[seq % FLIGHT_RING];
        const struct flight_entry *after = &p->ring[(seq + 1) % FLIGHT_RING];
        if (e->seq != seq || after->seq != seq + 1 || after->at_ns < e->at_ns)
            continue; /* being written, or overwritten */
        uint64_t phase = e->step_phase & 0xff;
        if (phase == PHASE_FORWARD)
            s->size = e->value;
        if (s->stepped)
            learn_one(h, s->size, phase, after->at_ns - e->at_ns);
    }
    if (next > 0)
        s->learned_seq = next - 1;
}

/* Learned deadline; 0: not known. */
static uint64_t p999_ns(const struct bucket *b, enum flight_phase phase)
{
    uint64_t now = flight_quantile_ns(b->hist[phase], 0.999);
    return now > b->before_ns[phase] ? now : b->before_ns[phase];
}

json_t *hang_detector_learned(const struct hang_detector *h)
{
    json_t *all = json_object();
    for (int i = 0; i < h->buckets; i++) {
        const struct bucket *b = &h->bucket[i];
        char name[48];
        snprintf(name, sizeof(name), "%ux%u", (unsigned)(b->size >> 32), (unsigned)b->size);
        json_t *one = i == 0 ? json_incref(all) : json_object();
        for (int p = 0; p < FLIGHT_PHASES; p++) {
            uint64_t ns = p999_ns(b, (enum flight_phase)p);
            if (ns)
                json_object_set_new(one, flight_phase_name((enum flight_phase)p),
                                    json_real((double)ns / 1e6));
        }
        if (i > 0 && json_object_size(one))
            json_object_set(all, name, one);
        json_decref(one);
    }
    if (all && json_object_size(all))
        return all;
    json_decref(all);
    return NULL;
}

static void remember(struct bucket *b, const json_t *learned)
{
    for (int p = 0; p < FLIGHT_PHASES; p++) {
        const json_t *v = json_object_get(learned, flight_phase_name((enum flight_phase)p));
        double ms = json_number_value(v);
        if (ms > 0 && ms < 1e9)
            b->before_ns[p] = (uint64_t)(ms * 1e6);
    }
}

static void remember_all(struct hang_detector *h, const json_t *learned)
{
    const char *name;
    json_t *value;
    json_t *walk = (json_t *)(uintptr_t)learned; /* iterating does not modify it */
    remember(&h->bucket[0], learned);
    json_object_foreach(walk, name, value)
    {
        unsigned height, width;
        if (json_is_object(value) && sscanf(name, "%ux%u", &height, &width) == 2)
            remember(find_bucket(h, (uint64_t)height << 32 | width, true), value);
    }
}

/* --- deadlines -------------------------------------------------------------------------- */

static int64_t longest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t first_step_ms(const struct hang_detector *h)
{
    return h->rules.first_step_ms > 0 ? h->rules.first_step_ms : HANG_DETECTOR_FIRST_STEP_MS;
}

/* The deadline of the phase on the page; -1 = none. */
static int64_t phase_deadline(const struct hang_detector *h, const struct seen *s,
                              const struct flight_page *p)
{
    if (!p->pid)
        return h->rules.engine ? first_step_ms(h) : -1;
    enum flight_phase phase = flight_phase_of(p);
    int floor_s = h->rules.engine ? phases[phase].engine_s : phases[phase].command_s;
    if (floor_s == 0)
        return -1;
    if (phase == PHASE_INIT)
        return first_step_ms(h);
    if (s->stepped && h->rules.step_ms > 0 && phases[phase].of_step)
        return h->rules.step_ms;
    const struct bucket *b = &h->bucket[0];
    for (int i = 1; i < h->buckets; i++)
        if (h->bucket[i].size == p->bucket && p999_ns(&h->bucket[i], phase))
            b = &h->bucket[i];
    uint64_t usual_ns = p999_ns(b, phase);
    int64_t deadline = longest(1000 * floor_s, (int64_t)(usual_ns / 1000000) * TIMES);
    return s->stepped && usual_ns ? deadline : longest(deadline, first_step_ms(h));
}

int64_t hang_detector_deadline_ms(const struct hang_detector *h, int rank,
                                  const struct flight_page *page, char state)
{
    int64_t deadline = phase_deadline(h, &h->seen[rank], page);
    if (state == 'T' && (deadline < 0 || deadline > STOPPED_MS))
        return STOPPED_MS;
    return deadline;
}

/* --- verdict ----------------------------------------------------------------------------- */

static bool waits(const struct flight_page *p)
{
    return p->coll_seq > p->coll_done_seq;
}

/* The ranks that have entered the fewest collectives: all others wait for them, whatever their
 * own phase. */
static uint64_t fewest(const struct hang_detector *h, const struct hang_detector_rank *ranks)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < h->n; i++)
        if (ranks[i].alive && (ranks[i].page->pid || h->rules.engine) &&
            ranks[i].page->coll_seq < least)
            least = ranks[i].page->coll_seq;
    return least;
}

__attribute__((format(printf, 3, 4))) static void add(char *text, size_t size, const char *fmt, ...)
{
    size_t n = strlen(text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text + n, size - n, fmt, ap);
    va_end(ap);
}

static const char *state_words(char state)
{
    switch (state) {
    case 'T':
        return "; its process is stopped (SIGSTOP)";
    case 'D':
        return "; its process is blocked in the kernel (disk, network file system or driver)";
    default:
        return "";
    }
}

/* "rank 3", or "rank 3 on gpu2". */
static const char *who(char out[WHO], const struct hang_detector_rank *ranks, int rank)
{
    const char *where = ranks[rank].where;
    snprintf(out, WHO, "rank %d%s%.40s", rank, where && where[0] ? " on " : "", where ? where : "");
    return out;
}

/* Adds which ranks wait for it, and in which collective. */
static void add_waiting(struct hang_detector_verdict *v, const struct hang_detector *h,
                        const struct hang_detector_rank *ranks)
{
    const struct flight_page *mine = ranks[v->rank].page, *one = NULL;
    int n = 0, first = -1;
    char name[WHO];
    for (int i = 0; i < h->n; i++) {
        const struct flight_page *p = ranks[i].page;
        if (i == v->rank || !ranks[i].alive || !p->pid || !waits(p) || p->coll_seq <= mine->coll_seq)
            continue;
        if (!n++)
            first = i;
        one = p;
    }
    if (n == 0)
        return;
    add(v->text, sizeof(v->text), "; it never entered %s %llu, in which ",
        one->coll_seq == mine->coll_seq + 1 ? flight_coll_name(one->coll_kind) : "collective",
        (unsigned long long)mine->coll_seq + 1);
    if (n == 1)
        add(v->text, sizeof(v->text), "%s waits", who(name, ranks, first));
    else
        add(v->text, sizeof(v->text), "%d ranks wait", n);
}

static void tell(struct hang_detector_verdict *v, const struct hang_detector *h,
                 const struct hang_detector_rank *ranks,
                 bool together)
{
    const struct flight_page *p = ranks[v->rank].page;
    char name[WHO];
    double quiet = (double)v->quiet_ms / 1000, deadline = (double)v->deadline_ms / 1000;
    if (!p->pid && h->rules.engine) {
        add(v->text, sizeof(v->text), "%s did not start up within %.1f s%s",
            who(name, ranks, v->rank), quiet, state_words(ranks[v->rank].state));
        return;
    }
    if (!p->pid) {
        add(v->text, sizeof(v->text), "%s hangs: no progress for %.1f s%s",
            who(name, ranks, v->rank), quiet, state_words(ranks[v->rank].state));
        return;
    }
    if (together)
        add(v->text, sizeof(v->text), "all ranks are in %s %llu of step %llu",
            flight_coll_name(p->coll_kind), (unsigned long long)p->coll_seq,
            (unsigned long long)v->step + 1);
    else
        add(v->text, sizeof(v->text), "%s hangs in %s of step %llu", who(name, ranks, v->rank),
            flight_phase_name(v->phase), (unsigned long long)v->step + 1);
    add(v->text, sizeof(v->text), ": no progress for %.1f s (deadline %.1f s)%s", quiet, deadline,
        state_words(ranks[v->rank].state));
    if (!together)
        add_waiting(v, h, ranks);
    else
        v->rank = -1;
}

/* All ranks wait in the same collective: none of them can be named as the cause. */
static bool all_wait(const struct hang_detector *h, const struct hang_detector_rank *ranks,
                     uint64_t least)
{
    for (int i = 0; i < h->n; i++)
        if (ranks[i].alive &&
            (!waits(ranks[i].page) || ranks[i].page->coll_seq != least || ranks[i].state == 'T'))
            return false;
    return h->n > 1;
}

static bool any_stopped(const struct hang_detector *h, const struct hang_detector_rank *ranks)
{
    for (int i = 0; i < h->n; i++)
        if (ranks[i].alive && ranks[i].state == 'T')
            return true;
    return false;
}

/* Of the candidates, the rank that is furthest beyond its deadline. A stopped process explains
 * the silence of all others, and its own deadline is short, so it is waited for. */
static bool judge(const struct hang_detector *h, const struct hang_detector_rank *ranks,
                  struct hang_detector_verdict *out)
{
    uint64_t least = fewest(h, ranks);
    bool stopped = any_stopped(h, ranks);
    double worst = 1;
    int culprit = -1;
    for (int i = 0; i < h->n; i++) {
        const struct hang_detector_rank *r = &ranks[i];
        if (!r->alive || (stopped ? r->state != 'T' : r->page->coll_seq > least))
            continue;
        int64_t deadline = hang_detector_deadline_ms(h, i, r->page, r->state);
        double far = deadline > 0 ? (double)h->seen[i].quiet_ms / (double)deadline : 0;
        if (far >= worst && (culprit < 0 || far > worst)) {
            worst = far;
            culprit = i;
        }
    }
    if (culprit < 0)
        return false;
    const struct flight_page *p = ranks[culprit].page;
    *out = (struct hang_detector_verdict){
        .rank = culprit,
        .init = !h->seen[culprit].stepped,
        .phase = flight_phase_of(p),
        .step = flight_step(p),
        .quiet_ms = h->seen[culprit].quiet_ms,
        .deadline_ms = hang_detector_deadline_ms(h, culprit, p, ranks[culprit].state),
    };
    tell(out, h, ranks, all_wait(h, ranks, least));
    return true;
}

/* --- looking ----------------------------------------------------------------------------- */

static void look_at(struct hang_detector *h, struct seen *s, const struct hang_detector_rank *r,
                    int64_t passed_ms)
{
    const struct flight_page *p = r->page;
    const uint64_t mark[9] = {p->step_phase,    p->phase_start_ns, p->phase_done,
                              p->micro_batch,   p->coll_seq,       p->coll_done_seq,
                              p->ring_next,     p->pid,
                              phases[flight_phase_of(p)].files ? r->io_mib : 0};
    bool same = s->begun && memcmp(mark, s->mark, sizeof(mark)) == 0;
    s->quiet_ms = same && r->alive ? s->quiet_ms + passed_ms : 0;
    memcpy(s->mark, mark, sizeof(mark));
    s->begun = true;
    if (!p->pid)
        return;
    if (!s->at_work && flight_phase_of(p) != PHASE_INIT) {
        s->at_work = true;
        s->base_step = flight_step(p);
        s->base_coll = p->coll_done_seq;
    }
    learn(h, s, p);
    /* A command seen only through NCCL has no steps, but collectives. */
    s->stepped = s->stepped || (s->at_work && (flight_step(p) > s->base_step ||
                                               p->coll_done_seq > s->base_coll + STEP_COLLS));
}

bool hang_detector_look(struct hang_detector *h, const struct hang_detector_rank *ranks,
                        int64_t now_ms,
                        struct hang_detector_verdict *out)
{
    int64_t passed = now_ms - h->looked_ms;
    bool traced = false;
    h->looked_ms = now_ms;
    for (int i = 0; i < h->n; i++) {
        look_at(h, &h->seen[i], &ranks[i], passed < LOOK_MAX_MS ? passed : LOOK_MAX_MS);
        traced = traced || (ranks[i].alive && ranks[i].state == 't');
    }
    for (int i = 0; traced && i < h->n; i++)
        h->seen[i].quiet_ms = 0;
    return judge(h, ranks, out);
}

/* --- creation and release ---------------------------------------------------------------- */

int hang_detector_create(struct hang_detector **out, int ranks,
                         const struct hang_detector_rules *rules, const json_t *learned,
                         struct err *err)
{
    struct hang_detector *h = calloc(1, sizeof(*h));
    if (h)
        h->seen = calloc((size_t)(ranks > 0 ? ranks : 1), sizeof(*h->seen));
    if (!h || !h->seen) {
        hang_detector_destroy(h);
        return err_set(err, ERR_MEMORY, "no memory to watch %d ranks", ranks);
    }
    h->rules = *rules;
    h->n = ranks;
    h->buckets = 1;
    remember_all(h, learned);
    *out = h;
    return 0;
}

void hang_detector_destroy(struct hang_detector *h)
{
    if (!h)
        return;
    free(h->seen);
    free(h);
}

void hang_detector_begin(struct hang_detector *h, int64_t now_ms)
{
    memset(h->seen, 0, (size_t)h->n * sizeof(*h->seen));
    h->looked_ms = now_ms;
}
