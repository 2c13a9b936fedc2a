/* SPDX-License-Identifier: Apache-2.0 */
/* step_sync.c - see step_sync.h */
#include "engine/dist/step_sync.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/data/batch_plan.h"
#include "engine/dist/dist.h"

enum {
    WAIT_MS = 60000,   /* minimum; more if steps are long */
    WAIT_STEPS = 10,
    FIRST_MS = 600000  /* the first step: memory, tables, caches */
};

_Static_assert(sizeof(struct step_sync_words) == DIST_UNIT, "a record is a unit");

struct step_sync_words step_sync_words(const struct step_sync_step *s)
{
    struct step_sync_words w = {.step = s->step, .height = s->height, .width = s->width};
    const int64_t shape[2] = {s->height, s->width};
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t h = digest_word(&s->step, sizeof(s->step), i);
        h = digest_word(shape, sizeof(shape), h);
        h = digest_word(&s->lr, sizeof(s->lr), h);
        for (size_t k = 0; k < s->samples; k++) {
            const int64_t id[2] = {s->slots[k].sample, s->slots[k].epoch};
            h = digest_word(id, sizeof(id), h);
        }
        h = digest_word(s->job, strlen(s->job), h);
        w.hash[i] = digest_word(s->data, strlen(s->data), h);
    }
    return w;
}

int step_sync_exchange(struct dist *d, struct step_sync_words *all, int64_t wait_ms, struct err *err)
{
    const size_t bytes = sizeof(*all) * (size_t)dist_world(d);
    if (dist_all_gather(d, all, bytes, DIST_U8, err) < 0 || dist_wait_for(d, wait_ms, err) < 0)
        return -1;
    return 0;
}

static bool is_same(const struct step_sync_words *a, const struct step_sync_words *b)
{
    return a->step == b->step && memcmp(a->hash, b->hash, sizeof(a->hash)) == 0;
}

/* The rank that most others disagree with; -1 if all agree. Of two, the second. */
static int find_odd(const struct step_sync_words *all, int world)
{
    int odd = -1, least = world;
    for (int i = world - 1; i >= 0; i--) {
        int same = 0;
        for (int k = 0; k < world; k++)
            same += is_same(&all[k], &all[i]);
        if (same < least) {
            odd = i;
            least = same;
        }
    }
    return odd;
}

int step_sync_check(const struct step_sync_words *all, int world, const char *what, struct err *err)
{
    char others[32] = "the others", they[96];
    const int odd = find_odd(all, world);
    if (odd < 0)
        return 0;
    int other = 0;
    while (is_same(&all[other], &all[odd]))
        other++;
    const struct step_sync_words *a = &all[odd], *b = &all[other];
    if (world == 2)
        snprintf(others, sizeof(others), "rank %d", other);
    if (a->step != b->step)
        snprintf(they, sizeof(they), ", %s at step %lld", others, (long long)b->step);
    else if (a->height != b->height || a->width != b->width)
        snprintf(they, sizeof(they), ", %s %lldx%lld", others, (long long)b->height, (long long)b->width);
    else
        snprintf(they, sizeof(they), " like %s, with different %s", others, what);
    return err_set(err, ERR_CONFLICT, "desync: rank %d is at step %lld bucket %lldx%lld%s", odd,
                   (long long)a->step, (long long)a->height, (long long)a->width, they);
}

struct step_sync_orders step_sync_orders(const struct step_sync_words *all, int world)
{
    struct step_sync_orders o = {CMD_NONE, all[0].due != 0, all[0].stage};
    for (int i = 0; i < world; i++) {
        if (all[i].asked > (int32_t)o.asked)
            o.asked = (enum progress_command)all[i].asked;
        if (all[i].stage < o.stage)
            o.stage = all[i].stage;
    }
    return o;
}

int step_sync_least(const struct step_sync_words *all, int world)
{
    int least = all[0].least;
    for (int i = 1; i < world; i++)
        least = all[i].least < least ? all[i].least : least;
    return least;
}

double step_sync_sum(const struct step_sync_words *all, int world)
{
    double sum = 0;
    for (int i = 0; i < world; i++)
        sum += all[i].value;
    return sum;
}

int64_t step_sync_patience_ms(const struct step_sync_pace *pace)
{
    const int64_t learned = (int64_t)(1000 * WAIT_STEPS * pace->step_s);
    int64_t own = learned > WAIT_MS ? learned : WAIT_MS;
    if (pace->step_s == 0)
        own = pace->hang_first_s > 0 ? (int64_t)(1000 * pace->hang_first_s) : FIRST_MS;
    else if (pace->hang_step_s > 0)
        own = (int64_t)(1000 * pace->hang_step_s);
    return pace->watched ? 2 * own : own;
}
