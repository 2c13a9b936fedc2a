/* SPDX-License-Identifier: Apache-2.0 */
/* monitor.c - see monitor.h */
#include "agent/attempt/monitor.h"

#include <stdlib.h>
#include <string.h>

#include "agent/monitor/straggler.h"
#include "agent/monitor/watch.h"
#include "agent/nodes/rank_set.h"
#include "engine/contract/err.h"

enum { LOOK_MS = 200, LINE_BYTES = 4096 };

/* The line that a rank is printing. */
struct partial {
    char   text[LINE_BYTES];
    size_t size;
};

struct vigil {
    struct world      *world;
    struct vigil_hooks hooks;
    struct hang       *hang;
    struct straggler  *straggler;
    struct watch      *watch;
    struct partial    *partial; /* of each rank; NULL when nothing is watched */
    uv_timer_t         timer;
    int                np, generation;
    struct hang_rank  *look;
    struct flight_page *pages;
    const char        **nodes;
};

static int64_t now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

static void tell_trouble(struct vigil *v, int rank, bool init, bool value, const char *text)
{
    vigil_end(v);
    v->hooks.trouble(v->hooks.arg, &(struct vigil_trouble){.generation = v->generation,
                                                           .rank = rank,
                                                           .init = init,
                                                           .value = value,
                                                           .text = text});
}

static void look_at_rules(struct vigil *v, int64_t now)
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

static void on_look(uv_timer_t *timer)
{
    struct vigil *v = timer->data;
    struct hang_verdict verdict;
    for (int i = 0; i < v->np; i++) {
        struct hang_rank *r = &v->look[i];
        v->nodes[i] = world_where(v->world, i);
        *r = (struct hang_rank){.page = &v->pages[i], .where = v->nodes[i]};
        r->alive = world_look(v->world, i, &v->pages[i], &r->state, &r->io_mib) > 0;
    }
    int64_t now = now_ms();
    if (straggler_look(v->straggler, v->pages, v->nodes, now))
        v->hooks.slow(v->hooks.arg, straggler_body(v->straggler));
    if (hang_look(v->hang, v->look, now, &verdict))
        tell_trouble(v, verdict.rank, verdict.init, false, verdict.text);
    else
        look_at_rules(v, now);
}

static int make_partial(struct vigil *v, int np, struct err *err)
{
    if (!watch_has_rules(v->watch))
        return 0;
    v->partial = calloc((size_t)np, sizeof(*v->partial));
    return v->partial ? 0 : err_set(err, ERR_MEMORY, "no memory to watch the output of %d ranks", np);
}

static int64_t seconds_ms(const json_t *map, const char *key)
{
    return (int64_t)(1000 * json_number_value(json_object_get(map, key)));
}

int vigil_create(struct vigil **out, uv_loop_t *loop, struct world *world, const json_t *plan,
                 const json_t *spec, const json_t *learned, const struct vigil_hooks *hooks,
                 struct err *err)
{
    const int np = (int)json_integer_value(json_object_get(plan, "np"));
    const json_t *hang = json_object_get(spec, "hang");
    const struct hang_rules rules = {.engine = json_is_true(json_object_get(plan, "engine")),
                                     .step_ms = seconds_ms(hang, "step"),
                                     .first_step_ms = seconds_ms(hang, "first_step")};
    struct vigil *v = calloc(1, sizeof(*v));
    if (v) {
        v->look = calloc((size_t)np, sizeof(*v->look));
        v->pages = calloc((size_t)np, sizeof(*v->pages));
        v->nodes = calloc((size_t)np, sizeof(*v->nodes));
    }
    if (!v || !v->look || !v->pages || !v->nodes) {
        vigil_destroy(v);
        return err_set(err, ERR_MEMORY, "no memory to watch %d ranks", np);
    }
    if (hang_create(&v->hang, np, &rules, learned, err) < 0 ||
        straggler_create(&v->straggler, np, err) < 0 ||
        watch_create(&v->watch, json_object_get(spec, "watch"), err) < 0 || make_partial(v, np, err) < 0) {
        vigil_destroy(v);
        return -1;
    }
    v->world = world;
    v->np = np;
    v->hooks = *hooks;
    uv_timer_init(loop, &v->timer);
    v->timer.data = v;
    *out = v;
    return 0;
}

void vigil_close(struct vigil *v)
{
    if (v)
        uv_close((uv_handle_t *)&v->timer, NULL);
}

void vigil_destroy(struct vigil *v)
{
    if (!v)
        return;
    hang_destroy(v->hang);
    straggler_destroy(v->straggler);
    watch_destroy(v->watch);
    free(v->partial);
    free(v->look);
    free(v->pages);
    free(v->nodes);
    free(v);
}

void vigil_begin(struct vigil *v, int generation)
{
    v->generation = generation;
    hang_begin(v->hang, now_ms());
    straggler_begin(v->straggler);
    watch_begin(v->watch, now_ms());
    for (int i = 0; v->partial && i < v->np; i++)
        v->partial[i].size = 0;
    uv_timer_start(&v->timer, on_look, LOOK_MS, LOOK_MS);
}

void vigil_end(struct vigil *v)
{
    if (v)
        uv_timer_stop(&v->timer);
}

/* A line that is longer than LINE_BYTES is cut. */
void vigil_output(struct vigil *v, int rank, const char *bytes, size_t size)
{
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
            watch_line(v->watch, rank, p->text, now_ms());
        p->size = 0;
    }
}

json_t *vigil_learned(const struct vigil *v)
{
    return v ? hang_learned(v->hang) : NULL;
}
