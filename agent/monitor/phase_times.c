/* SPDX-License-Identifier: Apache-2.0 */
/* phase_times.c - see phase_times.h */
#include "agent/monitor/phase_times.h"

#include <stdio.h>

static struct phase_times_size *find(struct phase_times *t, uint64_t size)
{
    for (int i = 0; i <= t->more; i++)
        if (t->size[i].size == size)
            return &t->size[i];
    if (t->more + 1 == PHASE_TIMES_SIZES)
        return &t->size[0];
    t->size[++t->more].size = size;
    return &t->size[t->more];
}

void phase_times_add(struct phase_times *t, uint64_t size, uint64_t phase, uint64_t took_ns)
{
    if (phase >= FLIGHT_PHASES)
        return;
    const int bin = flight_bin(took_ns);
    struct phase_times_size *s = find(t, size);
    t->size[0].hist[phase][bin]++;
    if (s != &t->size[0])
        s->hist[phase][bin]++;
}

/* 0: not known. */
static uint64_t p999_ns(const struct phase_times_size *s, enum flight_phase phase)
{
    const uint64_t now = flight_quantile_ns(s->hist[phase], 0.999);
    return now > s->before_ns[phase] ? now : s->before_ns[phase];
}

int64_t phase_times_usual_ms(const struct phase_times *t, uint64_t size, enum flight_phase phase)
{
    const struct phase_times_size *s = &t->size[0];
    for (int i = 1; i <= t->more; i++)
        if (t->size[i].size == size && p999_ns(&t->size[i], phase))
            s = &t->size[i];
    const uint64_t ns = p999_ns(s, phase);
    return ns > 0 && ns < 1000000 ? 1 : (int64_t)(ns / 1000000);
}

static void write_size(json_t *out, const struct phase_times_size *s)
{
    for (int p = 0; p < FLIGHT_PHASES; p++) {
        const uint64_t ns = p999_ns(s, (enum flight_phase)p);
        if (ns)
            json_object_set_new(out, flight_phase_name((enum flight_phase)p), json_real((double)ns / 1e6));
    }
}

json_t *phase_times_json(const struct phase_times *t)
{
    json_t *all = json_object();
    write_size(all, &t->size[0]);
    for (int i = 1; i <= t->more; i++) {
        char name[48];
        json_t *one = json_object();
        snprintf(name, sizeof(name), "%ux%u", (unsigned)(t->size[i].size >> 32), (unsigned)t->size[i].size);
        write_size(one, &t->size[i]);
        if (json_object_size(one))
            json_object_set(all, name, one);
        json_decref(one);
    }
    return all;
}

static void read_size(struct phase_times_size *s, const json_t *learned)
{
    for (int p = 0; p < FLIGHT_PHASES; p++) {
        const json_t *v = json_object_get(learned, flight_phase_name((enum flight_phase)p));
        const double ms = json_number_value(v);
        if (ms > 0 && ms < 1e9)
            s->before_ns[p] = (uint64_t)(ms * 1e6);
    }
}

void phase_times_read(struct phase_times *t, const json_t *learned)
{
    const char *name;
    json_t *value;
    json_t *walk = (json_t *)(uintptr_t)learned; /* iterating does not modify it */
    read_size(&t->size[0], learned);
    json_object_foreach (walk, name, value) {
        unsigned height, width;
        if (json_is_object(value) && sscanf(name, "%ux%u", &height, &width) == 2)
            read_size(find(t, (uint64_t)height << 32 | width), value);
    }
}
