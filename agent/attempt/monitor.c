/* SPDX-License-Identifier: Apache-2.0 */
/* monitor.c - see monitor.h */
#include "agent/attempt/monitor.h"

#include <stdlib.h>
#include <string.h>

#include "agent/monitor/output_progress.h"
#include "agent/monitor/straggler.h"
#include "agent/monitor/watch.h"
#include "agent/nodes/leader.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

enum { LOOK_MS = 200, LINE_BYTES = 4096 };

/* The partial line of a rank. */
struct partial {
    char   text[LINE_BYTES];
    size_t size;
};

struct monitor {
    struct leader             *leader;
    struct monitor_hooks       hooks;
    struct hang_detector      *hang;
    struct straggler          *straggler;
    struct watch              *watch;
    struct partial *partial; /* per rank; NULL without watch rules */
    struct output_progress     progress;
    bool                       reads_progress; /* of a `run:` job that reports none itself */
    uv_timer_t                 timer;
    int                        np, generation;
    struct hang_detector_rank *look;
    struct flight_page *pages;
    const char        **nodes;
};

static void tell_trouble(struct monitor *v, int rank, bool init, bool value, const char *text)
{
    monitor_end(v);
    v->hooks.trouble(v->hooks.arg, &(struct monitor_trouble){.generation = v->generation,
                                                             .rank = rank,
                                                             .init = init,
                                                             .value = value,
                                                             .text = text});
}

static void look_at_rules(struct monitor *v, int64_t now)
{
    struct watch_verdict broken;
    while (watch_look(v->watch, now, &broken)) {
        if (broken.restart) {
            tell_trouble(v, -1, broken.init, broken.value, broken.text);
            return;
        }
        v->hooks.warning(v->hooks.arg, broken.text);
    }
}

void monitor_progress(struct monitor *v)
{
    json_t *line = v && v->reads_progress ? output_progress_line(&v->progress, &v->pages[0]) : NULL;
    if (line) {
        hang_detector_step(v->hang);
        v->hooks.progress(v->hooks.arg, v->generation, line);
    }
    json_decref(line);
}

void monitor_tells_itself(struct monitor *v)
{
    if (v)
        v->reads_progress = false;
}

static void on_look(uv_timer_t *timer)
{
    struct monitor *v = timer->data;
    struct hang_detector_verdict verdict;
    for (int i = 0; i < v->np; i++) {
        struct hang_detector_rank *r = &v->look[i];
        v->nodes[i] = leader_where(v->leader, i);
        *r = (struct hang_detector_rank){.page = &v->pages[i], .where = v->nodes[i]};
        r->alive = leader_look(v->leader, i, &v->pages[i], &r->state, &r->use) > 0;
    }
    int64_t now = clock_ms();
    monitor_progress(v);
    if (straggler_look(v->straggler, v->pages, v->nodes, now))
        v->hooks.slow(v->hooks.arg, straggler_body(v->straggler));
    const bool hangs = hang_detector_look(v->hang, v->look, now, &verdict);
    if (hangs && verdict.warning)
        v->hooks.warning(v->hooks.arg, verdict.text);
    else if (hangs)
        tell_trouble(v, verdict.rank, verdict.init, false, verdict.text);
    else
        look_at_rules(v, now);
}

static int make_partial(struct monitor *v, int np, struct err *err)
{
    if (!watch_has_rules(v->watch))
        return 0;
    v->partial = calloc((size_t)np, sizeof(*v->partial));
    return v->partial ? 0 : err_set(err, ERR_MEMORY, "no memory to watch the output of %d ranks", np);
}

int monitor_create(struct monitor **out, uv_loop_t *loop, struct leader *leader, const json_t *plan, const json_t *spec,
                   const json_t *learned, const struct monitor_hooks *hooks, struct err *err)
{
    const int np = (int)json_integer_value(json_object_get(plan, "np"));
    struct hang_rules rules;
    struct monitor *v = calloc(1, sizeof(*v));
    if (v) {
        v->look = calloc((size_t)np, sizeof(*v->look));
        v->pages = calloc((size_t)np, sizeof(*v->pages));
        v->nodes = calloc((size_t)np, sizeof(*v->nodes));
    }
    if (!v || !v->look || !v->pages || !v->nodes) {
        monitor_destroy(v);
        return err_set(err, ERR_MEMORY, "no memory to watch %d ranks", np);
    }
    hang_rules_read(&rules, spec, json_is_true(json_object_get(plan, "engine")));
    if (hang_detector_create(&v->hang, np, &rules, learned, err) < 0 ||
        straggler_create(&v->straggler, np, err) < 0 ||
        watch_create(&v->watch, json_object_get(spec, "watch"), err) < 0 || make_partial(v, np, err) < 0) {
        monitor_destroy(v);
        return -1;
    }
    v->leader = leader;
    v->np = np;
    v->hooks = *hooks;
    v->reads_progress = !rules.engine;
    output_progress_init(&v->progress, json_string_value(json_object_get(spec, "progress")));
    uv_timer_init(loop, &v->timer);
    v->timer.data = v;
    *out = v;
    return 0;
}

void monitor_close(struct monitor *v)
{
    if (v)
        uv_close((uv_handle_t *)&v->timer, NULL);
}

void monitor_destroy(struct monitor *v)
{
    if (!v)
        return;
    hang_detector_destroy(v->hang);
    straggler_destroy(v->straggler);
    watch_destroy(v->watch);
    output_progress_fini(&v->progress);
    free(v->partial);
    free(v->look);
    free(v->pages);
    free(v->nodes);
    free(v);
}

void monitor_begin(struct monitor *v, int generation)
{
    v->generation = generation;
    hang_detector_begin(v->hang, clock_ms());
    straggler_begin(v->straggler);
    watch_begin(v->watch, clock_ms());
    output_progress_begin(&v->progress);
    for (int i = 0; v->partial && i < v->np; i++)
        v->partial[i].size = 0;
    uv_timer_start(&v->timer, on_look, LOOK_MS, LOOK_MS);
}

void monitor_end(struct monitor *v)
{
    if (v)
        uv_timer_stop(&v->timer);
}

/* Lines longer than LINE_BYTES are truncated. */
void monitor_output(struct monitor *v, int rank, const char *bytes, size_t size)
{
    if (v && rank == 0 && v->reads_progress)
        output_progress_feed(&v->progress, bytes, size);
    if (!v || !v->partial || rank < 0 || rank >= v->np)
        return;
    struct partial *p = &v->partial[rank];
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != '\n' && bytes[i] != '\r') {
            if (p->size < sizeof(p->text) - 1)
                p->text[p->size++] = bytes[i];
            continue;
        }
        p->text[p->size] = '\0';
        if (p->size)
            watch_line(v->watch, rank, p->text, clock_ms());
        p->size = 0;
    }
}

json_t *monitor_learned(const struct monitor *v)
{
    return v ? hang_detector_learned(v->hang) : NULL;
}
