/* SPDX-License-Identifier: Apache-2.0 */
/* hang_detector.c - see hang_detector.h */
#include "agent/monitor/hang_detector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/monitor/phase_times.h"
#include "agent/monitor/silence.h"
#include "engine/base/err.h"
#include "engine/base/text_append.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { WHO = 64 }; /* "rank 3 on NAME" */

enum {
    IO_SHIFT = 20,      /* of file I/O, MiB count */
    STEP_COLLS = 50,    /* this many collectives count as a step */
    LOOK_MAX_MS = 1000, /* longest quiet time counted between two looks: the agent itself, or
                           the whole machine, may have been suspended */
};

/* State of a rank at the last look. */
struct seen {
    bool begun, alive; /* there was a look, with the rank alive */
    uint64_t mark[9]; /* values that change with any activity */
    int64_t  quiet_ms;   /* nothing in its page has changed */
    int64_t  idle_ms;    /* no sign of life at all */
    int64_t  mute_ms;    /* no output */
    int64_t  main_ms;    /* no output, no work of a main thread or on a GPU, and no wait for a disk */
    bool     main_known; /* a main thread has worked: their work can be seen */
    int64_t  unsampled_ms; /* since the last sample */
    int64_t  uncounted_ms; /* since the last window of its counters, or the last sign of life */
    int64_t  stopped_ms; /* by a signal */
    struct activity activity;
    bool printed;        /* there was output */
    bool moved;          /* its page has changed since the last sample */
    bool warned;         /* of its page's present quiet time */
    bool at_work, stepped; /* has left init; has completed a step since */
    uint64_t base_step, base_coll;
    uint64_t learned_seq; /* ring entries up to here are counted */
    uint64_t size;        /* batch size at that entry */
};

struct hang_detector {
    struct hang_rules          rules;
    struct silence             silence;
    bool                       warned;  /* of the present silence */
    bool                       reported; /* a step, since the last look */
    int64_t                    thaw_ms; /* no verdict for so long */
    int                        n;
    int64_t                    looked_ms;
    struct seen               *seen;
    struct phase_times         times;
};

/* --- learning --------------------------------------------------------------------------- */

/* Takes the ring entries since the last look: each phase lasted until the next began. Nothing is
 * learned before the end of the first step, nor from a time in which the ranks may have been frozen. */
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
        if ((s->stepped || (s->at_work && e->step_phase >> 8 > s->base_step)) && h->thaw_ms <= 0)
            phase_times_add(&h->times, s->size, phase, after->at_ns - e->at_ns);
    }
    if (next > 0)
        s->learned_seq = next - 1;
}

json_t *hang_detector_learned(const struct hang_detector *h)
{
    json_t *all = phase_times_json(&h->times);
    json_object_set_new(all, "silence", silence_learned(&h->silence));
    if (all && json_object_size(all))
        return all;
    json_decref(all);
    return NULL;
}

static void remember(struct hang_detector *h, const json_t *learned)
{
    phase_times_read(&h->times, learned);
    silence_remember(&h->silence, json_object_get(learned, "silence"));
}

/* --- deadlines -------------------------------------------------------------------------- */

static int64_t longest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_set(const struct hang_detector *h, int rank, const struct flight_page *p)
{
    return p->pid && hang_rules_is_set(&h->rules, flight_phase_of(p), h->seen[rank].stepped);
}

static int64_t auto_deadline(const struct hang_detector *h, const struct seen *s, const struct flight_page *p)
{
    const int64_t first = hang_rules_first_step_ms(&h->rules);
    const int64_t usual = HANG_TIMES * phase_times_usual_ms(&h->times, p->bucket, flight_phase_of(p));
    const int64_t deadline = longest(hang_rules_floor_ms(&h->rules, flight_phase_of(p)), usual);
    return s->stepped && usual ? deadline : longest(deadline, first);
}

/* The deadline of the phase on the page; -1 = none. */
static int64_t phase_deadline(const struct hang_detector *h, int rank, const struct flight_page *p)
{
    const struct seen *s = &h->seen[rank];
    const int64_t first = hang_rules_first_step_ms(&h->rules);
    const int alarms = h->silence.false_alarms;
    if (!p->pid)
        return h->rules.engine ? hang_rules_doubled_ms(first, alarms) : -1;
    if (hang_rules_floor_ms(&h->rules, flight_phase_of(p)) < 0)
        return -1;
    if (is_set(h, rank, p))
        return s->stepped ? h->rules.step_ms : first;
    return hang_rules_doubled_ms(flight_phase_of(p) == PHASE_INIT ? first : auto_deadline(h, s, p), alarms);
}

/* How long a rank may be quiet; -1 = no deadline. */
static int64_t deadline_of(const struct hang_detector *h, int rank, const struct flight_page *page, char state)
{
    int64_t deadline = phase_deadline(h, rank, page);
    if (state == 'T' && (deadline < 0 || deadline > HANG_STOPPED_MS))
        return HANG_STOPPED_MS;
    return deadline;
}

/* How long a rank has not done what its deadline requires. */
static int64_t still_ms(const struct hang_detector *h, int rank, const struct hang_detector_rank *r)
{
    const struct seen *s = &h->seen[rank];
    if (r->state == 'T')
        return s->stopped_ms;
    if (is_set(h, rank, r->page) || !r->page->pid ||
        !hang_rules_life_counts(&h->rules, flight_phase_of(r->page)))
        return s->quiet_ms;
    return s->idle_ms;
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
    text_append(v->text, sizeof(v->text), "; it never entered %s %llu, in which ",
        one->coll_seq == mine->coll_seq + 1 ? flight_coll_name(one->coll_kind) : "collective",
        (unsigned long long)mine->coll_seq + 1);
    if (n == 1)
        text_append(v->text, sizeof(v->text), "%s waits", who(name, ranks, first));
    else
        text_append(v->text, sizeof(v->text), "%d ranks wait", n);
}

static void tell(struct hang_detector_verdict *v, const struct hang_detector *h, const struct hang_detector_rank *ranks,
                 bool together)
{
    const struct flight_page *p = ranks[v->rank].page;
    char name[WHO];
    double quiet = (double)v->quiet_ms / 1000, deadline = (double)v->deadline_ms / 1000;
    if (!p->pid && h->rules.engine) {
        text_append(v->text, sizeof(v->text), "%s did not start up within %.1f s%s",
            who(name, ranks, v->rank), quiet, state_words(ranks[v->rank].state));
        return;
    }
    if (!p->pid) {
        text_append(v->text, sizeof(v->text), "%s hangs: no progress for %.1f s%s",
            who(name, ranks, v->rank), quiet, state_words(ranks[v->rank].state));
        return;
    }
    if (together)
        text_append(v->text, sizeof(v->text), "all ranks are in %s %llu of step %llu", flight_coll_name(p->coll_kind),
                    (unsigned long long)p->coll_seq, (unsigned long long)v->step + 1);
    else
        text_append(v->text, sizeof(v->text), "%s hangs in %s of step %llu", who(name, ranks, v->rank),
            flight_phase_name(v->phase), (unsigned long long)v->step + 1);
    text_append(v->text, sizeof(v->text), ": no progress for %.1f s (deadline %.1f s)%s", quiet, deadline,
        state_words(ranks[v->rank].state));
    if (!together)
        add_waiting(v, h, ranks);
    else
        v->rank = -1;
}

/* All ranks wait in the same collective: none of them can be named as the cause. */
static bool all_wait(const struct hang_detector *h, const struct hang_detector_rank *ranks, uint64_t least)
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

/* Of the candidates, the rank that is furthest beyond its deadline; -1: none. A stopped process
 * explains the silence of all others, and its own deadline is short, so it is waited for. */
static int worst_rank(const struct hang_detector *h, const struct hang_detector_rank *ranks)
{
    uint64_t least = fewest(h, ranks);
    bool stopped = any_stopped(h, ranks);
    double worst = 1;
    int culprit = -1;
    for (int i = 0; i < h->n; i++) {
        const struct hang_detector_rank *r = &ranks[i];
        if (!r->alive || (stopped ? r->state != 'T' : r->page->coll_seq > least))
            continue;
        int64_t deadline = deadline_of(h, i, r->page, r->state);
        double far = deadline > 0 ? (double)still_ms(h, i, r) / (double)deadline : 0;
        if (far >= worst && (culprit < 0 || far > worst)) {
            worst = far;
            culprit = i;
        }
    }
    return culprit;
}

/* True if there was a sign of life in the newer half of its quiet time, or if later signs were discounted only because
 * its GPU is busy without moving data. */
static bool at_work(const struct seen *s, int64_t quiet_ms)
{
    return 2 * s->idle_ms < quiet_ms || s->activity.spins;
}

/* Counts a false alarm; true: there was a warning about it already. */
static bool excuse(struct hang_detector *h, bool *warned, struct hang_detector_verdict *v)
{
    const bool sure = v->quiet_ms >= HANG_SURE_MS;
    if (*warned && !sure)
        return true;
    h->silence.false_alarms++;
    v->warning = h->silence.false_alarms >= HANG_WARN_FROM && !sure;
    *warned = v->warning;
    text_append(v->text, sizeof(v->text), "; signs of work: %s",
        v->warning ? "only a warning, after two false alarms"
                   : "automatic deadlines are doubled from now on");
    return false;
}

static bool judge(struct hang_detector *h, const struct hang_detector_rank *ranks, struct hang_detector_verdict *out)
{
    const int culprit = worst_rank(h, ranks);
    if (culprit < 0)
        return false;
    struct seen *s = &h->seen[culprit];
    const struct flight_page *p = ranks[culprit].page;
    const char state = ranks[culprit].state;
    *out = (struct hang_detector_verdict){
        .rank = culprit,
        .init = !s->stepped,
        .phase = flight_phase_of(p),
        .step = flight_step(p),
        .quiet_ms = still_ms(h, culprit, &ranks[culprit]),
        .deadline_ms = deadline_of(h, culprit, p, state),
    };
    tell(out, h, ranks, all_wait(h, ranks, fewest(h, ranks)));
    if (state == 'T' || !at_work(s, out->quiet_ms))
        return true;
    if (!is_set(h, culprit, p))
        return !excuse(h, &s->warned, out);
    text_append(out->text, sizeof(out->text), "; it was working: raise hang.%s if such a phase may take this long",
        s->stepped ? "step" : "first_step");
    return true;
}

/* --- silence of all ranks ---------------------------------------------------------------- */

/* The rank that gave the last sign of life; -1: none is alive. */
static int last_alive(const struct hang_detector *h, const struct hang_detector_rank *ranks)
{
    int last = -1;
    for (int i = 0; i < h->n; i++)
        if (ranks[i].alive && (last < 0 || h->seen[i].idle_ms < h->seen[last].idle_ms))
            last = i;
    return last;
}

static bool has_pages(const struct hang_detector *h, const struct hang_detector_rank *ranks)
{
    for (int i = 0; i < h->n; i++)
        if (ranks[i].page->pid)
            return true;
    return false;
}

static bool has_begun(const struct hang_detector *h)
{
    for (int i = 0; i < h->n; i++)
        if (h->seen[i].printed || h->seen[i].stepped)
            return true;
    return false;
}

static bool any_blocked(const struct hang_detector *h, const struct hang_detector_rank *ranks)
{
    for (int i = 0; i < h->n; i++)
        if (ranks[i].alive && ranks[i].use.blocked)
            return true;
    return false;
}

static void start_verdict(struct hang_detector_verdict *v, const struct hang_detector *h,
                          int64_t quiet_ms, int64_t deadline_ms)
{
    *v = (struct hang_detector_verdict){.rank = h->n > 1 ? -1 : 0,
                                        .init = !has_begun(h),
                                        .quiet_ms = quiet_ms,
                                        .deadline_ms = deadline_ms};
    if (h->n > 1)
        text_append(v->text, sizeof(v->text), "none of %d ranks", h->n);
    else
        text_append(v->text, sizeof(v->text), "rank 0");
}

static bool judge_silence(struct hang_detector *h, const struct hang_detector_rank *ranks, int last,
                          struct hang_detector_verdict *out)
{
    struct seen *s = &h->seen[last];
    const int64_t deadline = silence_deadline_ms(&h->silence, &h->rules, any_blocked(h, ranks));
    if (deadline < 0 || s->idle_ms < deadline)
        return false;
    start_verdict(out, h, s->idle_ms, deadline);
    text_append(out->text, sizeof(out->text), "%s has shown a sign of life for %.1f s (limit %.1f s): ",
                h->n > 1 ? "" : " hangs: none of its processes", (double)s->idle_ms / 1000, (double)deadline / 1000);
    activity_say(out->text, sizeof(out->text), &s->activity, &h->silence.norm);
    if (ranks[last].page->pid && waits(ranks[last].page))
        text_append(out->text, sizeof(out->text), "; it is inside %s %llu",
                    flight_coll_name(ranks[last].page->coll_kind), (unsigned long long)ranks[last].page->coll_seq);
    text_append(out->text, sizeof(out->text), "%s", state_words(ranks[last].state));
    return h->rules.silent_ms > 0 || h->rules.step_ms > 0 || !s->activity.spins ||
           !excuse(h, &h->warned, out);
}

/* Threads in the background, such as a logger, are no sign of life for ever: a job that reported steps regularly hangs
 * if no main thread has worked for as long as a job without reports may be silent. */
static bool judge_background(const struct hang_detector *h, const struct hang_detector_rank *ranks,
                             struct hang_detector_verdict *out)
{
    const int64_t usual = step_pace_usual_ms(&h->silence.pace);
    const int64_t limit = hang_rules_background_ms(&h->rules, usual, h->silence.false_alarms);
    int64_t idle = h->silence.pace.since_ms;
    for (int i = 0; i < h->n; i++) {
        if (ranks[i].alive && (!h->seen[i].main_known || ranks[i].state == 't'))
            return false;
        if (ranks[i].alive && h->seen[i].main_ms < idle)
            idle = h->seen[i].main_ms;
    }
    if (limit < 0 || idle < limit)
        return false;
    start_verdict(out, h, idle, limit);
    text_append(out->text, sizeof(out->text),
                "%s reported a step or worked in a main thread for %.1f s (limit %.1f s; a step usually takes %.1f s): "
                "only threads in the background work", h->n > 1 ? " has" : " hangs: it has not", (double)idle / 1000,
                (double)limit / 1000, (double)usual / 1000);
    return true;
}

/* hang.step of a command without pages: output is the only sign of its steps. */
static bool judge_output(const struct hang_detector *h, const struct hang_detector_rank *ranks,
                         struct hang_detector_verdict *out)
{
    const bool begun = has_begun(h);
    int64_t mute = INT64_MAX;
    if (h->rules.engine || has_pages(h, ranks) || h->rules.step_ms <= 0 ||
        (!begun && !hang_rules_is_set(&h->rules, PHASE_INIT, false)))
        return false;
    const int64_t deadline = begun ? h->rules.step_ms : h->rules.first_step_ms;
    for (int i = 0; i < h->n; i++)
        if (ranks[i].alive && h->seen[i].mute_ms < mute)
            mute = h->seen[i].mute_ms;
    if (mute == INT64_MAX || mute < deadline)
        return false;
    start_verdict(out, h, mute, deadline);
    text_append(out->text, sizeof(out->text), "%s printed anything for %.1f s (hang.%s: %.1f s), and no "
                                      "flight page shows %s steps",
        h->n > 1 ? " has" : " hangs: it has not", (double)mute / 1000, begun ? "step" : "first_step",
        (double)deadline / 1000, h->n > 1 ? "their" : "its");
    return true;
}

/* --- looking ----------------------------------------------------------------------------- */

/* Idle time grows with each window without a sign of life; before a window ends nothing is known. */
static void look_at_use(struct hang_detector *h, struct seen *s, const struct hang_detector_rank *r)
{
    if (r->use.at_ms == s->activity.last.at_ms && r->use.at_ms > 0)
        return;
    const bool printed = r->use.output_bytes > s->activity.last.output_bytes;
    const bool counted = r->use.counted_ms == 0 || r->use.counted_ms != s->activity.last.counted_ms;
    const bool stuck = r->page->pid && waits(r->page) && !s->moved;
    const unsigned signs = activity_take(&s->activity, &h->silence.norm, &r->use, stuck);
    const bool life = signs != 0;
    const bool shown = (signs & (1u << ACTIVITY_OUTPUT | 1u << ACTIVITY_GPU)) != 0;
    s->main_known = s->main_known || s->activity.main_works;
    s->main_ms = shown || s->activity.main_works || r->use.blocked ? 0 : s->main_ms + s->unsampled_ms;
    s->idle_ms = life ? 0 : s->idle_ms + (counted ? s->uncounted_ms : 0);
    s->uncounted_ms = life || counted ? 0 : s->uncounted_ms;
    s->mute_ms = printed ? 0 : s->mute_ms + s->unsampled_ms;
    s->printed = s->printed || printed;
    s->moved = false;
    s->unsampled_ms = 0;
}

static void look_at(struct hang_detector *h, struct seen *s, const struct hang_detector_rank *r, int64_t passed_ms)
{
    const struct flight_page *p = r->page;
    const uint64_t mark[9] = {
        p->step_phase,    p->phase_start_ns, p->phase_done, p->micro_batch, p->coll_seq,
        p->coll_done_seq, p->ring_next,      p->pid,
        hang_rules_files_count(flight_phase_of(p)) ? r->use.io_bytes >> IO_SHIFT : 0};
    const bool same = s->begun && memcmp(mark, s->mark, sizeof(mark)) == 0;
    s->quiet_ms = same && r->alive ? s->quiet_ms + passed_ms : 0;
    s->stopped_ms = r->state == 'T' ? s->stopped_ms + passed_ms : 0;
    s->unsampled_ms += passed_ms;
    s->uncounted_ms += passed_ms;
    s->moved = s->moved || !same;
    look_at_use(h, s, r);
    if (!same || !r->alive)
        s->idle_ms = s->unsampled_ms = s->uncounted_ms = 0;
    s->warned = s->warned && same;
    memcpy(s->mark, mark, sizeof(mark));
    s->begun = true;
    if (!p->pid)
        return;
    if (!s->at_work && flight_phase_of(p) != PHASE_INIT) {
        s->at_work = true;
        s->base_step = flight_step(p);
        s->base_coll = p->coll_done_seq;
        s->learned_seq = p->ring_next > 0 ? p->ring_next - 1 : 0;
    }
    learn(h, s, p);
    /* A command seen only through NCCL has no steps, but collectives. */
    s->stepped = s->stepped || (s->at_work && (flight_step(p) > s->base_step ||
                                               p->coll_done_seq > s->base_coll + STEP_COLLS));
}

static void forgive(struct hang_detector *h)
{
    for (int i = 0; i < h->n; i++) {
        struct seen *s = &h->seen[i];
        s->quiet_ms = s->idle_ms = s->mute_ms = s->main_ms = s->unsampled_ms = s->uncounted_ms = s->stopped_ms = 0;
    }
}

void hang_detector_step(struct hang_detector *h)
{
    h->reported = true;
}

bool hang_detector_look(struct hang_detector *h, const struct hang_detector_rank *ranks, int64_t now_ms,
                        struct hang_detector_verdict *out)
{
    const int64_t since = now_ms - h->looked_ms, passed = since < LOOK_MAX_MS ? since : LOOK_MAX_MS;
    bool traced = false, gone = false;
    h->looked_ms = now_ms;
    h->thaw_ms = since > HANG_GAP_MS ? HANG_THAW_MS : h->thaw_ms - passed;
    for (int i = 0; i < h->n; i++) {
        look_at(h, &h->seen[i], &ranks[i], passed);
        traced = traced || (ranks[i].alive && ranks[i].state == 't');
        gone = gone || (h->seen[i].alive && !ranks[i].alive);
        h->seen[i].alive = ranks[i].alive;
    }
    if (gone) /* the others may have waited for it */
        forgive(h);
    const int last = last_alive(h, ranks);
    step_pace_pass(&h->silence.pace, passed, h->reported);
    h->reported = false;
    silence_pass(&h->silence, passed, last < 0 ? 0 : h->seen[last].idle_ms);
    h->warned = h->warned && h->silence.quiet_ms > 0;
    if (traced || h->thaw_ms > 0)
        forgive(h);
    return judge(h, ranks, out) || (last >= 0 && judge_silence(h, ranks, last, out)) ||
           (last >= 0 && judge_background(h, ranks, out)) || judge_output(h, ranks, out);
}

/* --- creation and release ---------------------------------------------------------------- */

int hang_detector_create(struct hang_detector **out, int ranks, const struct hang_rules *rules, const json_t *learned,
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
    remember(h, learned);
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
    h->thaw_ms = 0;
    h->reported = false;
    silence_begin(&h->silence);
}
