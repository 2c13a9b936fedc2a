/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot.c - what ranks leave in memory, other numbers of ranks find; torn copies are not used */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/keepsake.h"
#include "engine/err.h"
#include "engine/layout.h"
#include "engine/optim.h"
#include "engine/shard.h"
#include "engine/snapshot_parts.h"
#include "engine/state.h"

enum { RANKS = 8, LAYOUT = 77 };

static struct layout *layout;

/* One rank: its part of the optimizer, and all weights or (packed) its part of them. */
struct rank {
    struct shard *shard;
    struct optim *optim;
    float        *weights;
    struct state  state;
    int           fd;
    struct snapshot *writer;
};

static struct rank ranks[RANKS];

static void make_rank(struct rank *r, int rank, int world, enum shard_cut cut, bool packed)
{
    const struct optim_config cfg = {
        .type = cut == SHARD_TENSORS ? OPTIM_CAME : OPTIM_ADAMW, .beta = {0.9, 0.99, 0.999},
        .eps = {1e-8, 1e-16}, .clip_threshold = 1, .ema = 0.5};
    struct err err = {0};
    *r = (struct rank){.fd = snapshot_make(&err)};
    shard_create(&r->shard, layout, world, cut, &err);
    const struct optim_share share = {r->shard, rank, packed};
    if (optim_create(&r->optim, &cfg, layout, world > 1 ? &share : NULL, &err) < 0)
        fail_msg("%s", err.text);
    r->weights = calloc(layout_floats(layout) + shard_floats(r->shard, rank), sizeof(float));
    const struct state_source source = {layout, r->weights, packed, r->optim, r->shard, rank};
    assert_int_equal(state_make(&r->state, &source, &err), 0);
    const struct snapshot_run run = {LAYOUT, rank, world};
    assert_int_equal(snapshot_create(&r->writer, r->fd, &run, &r->state, &err), 0);
}

static void drop_rank(struct rank *r)
{
    snapshot_destroy(r->writer);
    if (r->fd >= 0)
        close(r->fd);
    state_free(&r->state);
    optim_destroy(r->optim);
    shard_destroy(r->shard);
    free(r->weights);
}

/* Number k of a tensor at a step, as if all of it depended on both. */
static float value(const struct state_part *p, size_t k, int64_t step)
{
    return (float)(p->name[0] * 31 + p->name[7]) + (float)(1000 * step) + 0.25f * (float)k;
}

static void fill(const struct rank *r, int64_t step)
{
    for (int i = 0; i < r->state.len; i++) {
        const struct state_part *p = &r->state.part[i];
        for (size_t k = p->from; k < p->to; k++)
            p->data[k - p->from] = value(p, k, step);
    }
}

static void check(const struct rank *r, int64_t step)
{
    for (int i = 0; i < r->state.len; i++) {
        const struct state_part *p = &r->state.part[i];
        for (size_t k = p->from; k < p->to; k++)
            if (p->data[k - p->from] != value(p, k, step))
                fail_msg("%s[%zu] is %g, not that of step %lld", p->name, k,
                         (double)p->data[k - p->from], (long long)step);
    }
}

static int setup(void **state)
{
    (void)state;
    static const int64_t shapes[][2] = {{37, 301}, {5, 1}, {64, 16}, {1, 1}, {300, 70}};
    layout_create(&layout, NULL);
    for (int i = 0; i < 5; i++) {
        char name[] = "tensor 0";
        name[7] = (char)('0' + i);
        if (i == 2)
            layout_next_unit(layout);
        layout_add(layout, name, TENSOR_PARAM, 2, shapes[i], NULL);
    }
    return layout_add(layout, "buffer 9", TENSOR_BUFFER, 2, shapes[0], NULL) < 0;
}

static int teardown(void **state)
{
    (void)state;
    layout_destroy(layout);
    return 0;
}

static struct snapshot_set *open_set(int world)
{
    int fds[RANKS];
    struct snapshot_set *set;
    for (int r = 0; r < world; r++)
        fds[r] = ranks[r].fd;
    assert_int_equal(snapshot_set_open(&set, fds, world, NULL), 0);
    return set;
}

/* As a device would. */
static int bring(void *arg, float *to, const float *from, size_t n)
{
    (void)arg;
    memcpy(to, from, n * sizeof(*to));
    return 0;
}

static void save_all(int world, int64_t step)
{
    for (int r = 0; r < world; r++) {
        fill(&ranks[r], step);
        assert_int_equal(snapshot_bring(ranks[r].writer, step, bring, NULL), 0);
        snapshot_seal(ranks[r].writer, step, "notes", 5);
    }
}

static void any_number_of_ranks_reads_any_other(void **state)
{
    (void)state;
    static const struct {
        int            from, to;
        enum shard_cut cut;
        bool           packed;
    } rows[] = {{1, 1, SHARD_EVEN, false}, {4, 4, SHARD_EVEN, false}, {7, 6, SHARD_EVEN, true},
                {6, 7, SHARD_EVEN, false}, {1, 8, SHARD_EVEN, true},  {8, 1, SHARD_EVEN, true},
                {3, 5, SHARD_EVEN, false}, {5, 3, SHARD_TENSORS, false},
                {2, 8, SHARD_TENSORS, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int r = 0; r < rows[i].from; r++)
            make_rank(&ranks[r], r, rows[i].from, rows[i].cut, rows[i].packed);
        save_all(rows[i].from, 41);
        save_all(rows[i].from, 42);
        struct snapshot_set *set = open_set(rows[i].from);
        assert_int_equal(snapshot_set_step(set, LAYOUT), 42);
        assert_int_equal(snapshot_set_step(set, LAYOUT + 1), -1);
        for (int r = 0; r < rows[i].to; r++) {
            struct rank reader;
            struct err err = {0};
            size_t n;
            make_rank(&reader, r, rows[i].to, rows[i].cut, !rows[i].packed && rows[i].to > 1);
            if (snapshot_set_load(set, 42, &reader.state, &err) < 0)
                fail_msg("%s", err.text);
            check(&reader, 42);
            assert_memory_equal(snapshot_set_notes(set, 42, &n), "notes", 5);
            assert_int_equal(n, 5);
            drop_rank(&reader);
        }
        snapshot_set_close(set);
        for (int r = 0; r < rows[i].from; r++)
            drop_rank(&ranks[r]);
    }
}

static struct snapshot_head *head_of(struct rank *r)
{
    return *(struct snapshot_head **)(void *)r->writer; /* its first member */
}

/* Four ranks at steps; what the next generation may go on from. */
static void only_what_all_have_whole(void **state)
{
    (void)state;
    enum harm { NONE, BEHIND, TORN, DAMAGED, NOTES, BOTH, EMPTY, LATE };
    static const struct {
        enum harm harm;
        int64_t   step;
    } rows[] = {{NONE, 42}, {BEHIND, 41}, {TORN, 41}, {DAMAGED, 41}, {NOTES, 41}, {BOTH, -1},
                {EMPTY, -1}, {LATE, -1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int r = 0; r < 4; r++)
            make_rank(&ranks[r], r, 4, SHARD_EVEN, false);
        save_all(4, 40);
        save_all(4, 41);
        save_all(rows[i].harm == BEHIND ? 2 : 4, 42);
        struct snapshot_head *h = head_of(&ranks[2]);
        char *copy = (char *)h + h->copy[0].at;
        switch (rows[i].harm) {
        case NONE:
        case BEHIND: /* killed before it had begun to write */
            break;
        case TORN: /* killed while it wrote */
            h->copy[0].step = -1;
            break;
        case DAMAGED:
            copy[SNAPSHOT_NOTES + 4 * h->floats - 1] ^= 1;
            break;
        case NOTES:
            copy[3] ^= 1;
            break;
        case BOTH:
            copy[SNAPSHOT_NOTES] ^= 1;
            ((char *)h + h->copy[1].at)[SNAPSHOT_NOTES + 77] ^= 1;
            break;
        case EMPTY:
            assert_int_equal(ftruncate(ranks[3].fd, 0), 0);
            break;
        case LATE: /* killed while it made the file */
            h->magic = 0;
            break;
        }
        struct snapshot_set *set = open_set(4);
        int64_t step = set ? snapshot_set_step(set, LAYOUT) : -1;
        if (step != rows[i].step)
            fail_msg("row %zu: step %lld", i, (long long)step);
        snapshot_set_close(set);
        for (int r = 0; r < 4; r++)
            drop_rank(&ranks[r]);
    }
}

/* A file is of a process that died at any instruction: offsets in it lead nowhere else. */
static void nonsense_is_not_read(void **state)
{
    (void)state;
    make_rank(&ranks[0], 0, 1, SHARD_EVEN, false);
    save_all(1, 6);
    struct snapshot_head *h = head_of(&ranks[0]), was = *h;
    struct snapshot_row *row = (struct snapshot_row *)(void *)((char *)h + SNAPSHOT_ROWS);
    const struct snapshot_row row_was = *row;
    for (int i = 0; i < 10; i++) {
        *h = was;
        *row = row_was;
        uint64_t *const at[] = {&h->rows,       &h->floats, &h->size, &h->copy[0].at,
                                &h->copy[1].notes, &row->from, &row->to, &row->at, &h->world, &h->copies};
        *at[i] = UINT64_MAX - 7;
        assert_null(open_set(1));
    }
    *h = was;
    *row = row_was;
    memset(row->name, 'x', sizeof(row->name));
    assert_null(open_set(1));
    drop_rank(&ranks[0]);
}

static void the_agent_keeps_what_is_of_use(void **state)
{
    (void)state;
    struct keepsake k = {0};
    assert_int_equal(keepsake_step(&k), -1);
    assert_int_equal(keepsake_begin(&k, 2, NULL), 0);
    assert_int_equal(k.now.n, 2);
    for (int r = 0; r < 2; r++) {
        make_rank(&ranks[r], r, 2, SHARD_EVEN, false);
        const struct snapshot_run run = {LAYOUT, r, 2};
        snapshot_destroy(ranks[r].writer);
        snapshot_create(&ranks[r].writer, k.now.fd[r], &run, &ranks[r].state, NULL);
    }
    save_all(2, 9);
    save_all(1, 10); /* the other one died */
    int of_use = k.now.fd[0];
    assert_int_equal(keepsake_begin(&k, 3, NULL), 0);
    assert_int_equal(k.last.fd[0], of_use);
    assert_int_equal(keepsake_step(&k), 9); /* heads alone: what all say they have */
    assert_int_equal(keepsake_begin(&k, 3, NULL), 0); /* one that died at its start */
    assert_int_equal(k.last.fd[0], of_use);
    assert_int_equal(keepsake_begin(&k, SNAPSHOT_RANKS + 1, NULL), -1);
    assert_int_equal(k.last.fd[0], of_use);
    keepsake_fini(&k);
    for (int r = 0; r < 2; r++)
        drop_rank(&ranks[r]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_reads_any_other),
        cmocka_unit_test(only_what_all_have_whole),
        cmocka_unit_test(nonsense_is_not_read),
        cmocka_unit_test(the_agent_keeps_what_is_of_use),
    };
    return cmocka_run_group_tests_name("snapshot", tests, setup, teardown);
}
