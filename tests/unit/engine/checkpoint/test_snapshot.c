/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot.c - any number of ranks reads the snapshots of others; torn copies are refused */
#include "tests/unit/engine/checkpoint/snapshot_fixture.h"

#include <sys/stat.h>

#include "agent/ranks/snapshot_memfds.h"
#include "engine/checkpoint/snapshot_internal.h"

static int setup(void **state)
{
    (void)state;
    return make_tensors(37);
}

static int teardown(void **state)
{
    (void)state;
    layout_destroy(tensors);
    return 0;
}

static struct snapshot_set *open_set(int world)
{
    int fds[SAVERS];
    struct snapshot_set *set;
    for (int r = 0; r < world; r++)
        fds[r] = ranks[r].fd;
    assert_int_equal(snapshot_set_open(&set, fds, world, NULL), 0);
    return set;
}

static void any_number_of_ranks_reads_any_other(void **state)
{
    (void)state;
    static const struct {
        int            from, to;
        enum shard_cut cut;
        enum held      held;
    } rows[] = {{1, 1, SHARD_EVEN, HELD_WHOLE},         {4, 4, SHARD_EVEN, HELD_MOMENTS_APART},
                {4, 3, SHARD_EVEN, HELD_WHOLE},         {7, 6, SHARD_EVEN, HELD_APART},
                {6, 7, SHARD_EVEN, HELD_MOMENTS_APART}, {1, 8, SHARD_EVEN, HELD_APART},
                {8, 1, SHARD_EVEN, HELD_APART},         {3, 5, SHARD_EVEN, HELD_MOMENTS_APART},
                {5, 3, SHARD_TENSORS, HELD_MOMENTS_APART}, {2, 8, SHARD_TENSORS, HELD_APART}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (int r = 0; r < rows[i].from; r++)
            make_rank(&ranks[r], r, rows[i].from, rows[i].cut, rows[i].held);
        save_all(rows[i].from, 41);
        save_all(rows[i].from, 42);
        struct snapshot_set *set = open_set(rows[i].from);
        assert_int_equal(snapshot_set_step(set, LAYOUT, INT64_MAX), 42);
        assert_int_equal(snapshot_set_step(set, LAYOUT, 41), 41);
        assert_int_equal(snapshot_set_step(set, LAYOUT, 40), -1);
        assert_int_equal(snapshot_set_step(set, LAYOUT + 1, INT64_MAX), -1);
        for (int r = 0; r < rows[i].to; r++) {
            struct rank reader;
            size_t n, missing[64];
            make_rank(&reader, r, rows[i].to, rows[i].cut,
                      rows[i].held != HELD_APART && rows[i].to > 1 ? HELD_APART : HELD_WHOLE);
            assert_in_range(reader.state.len, 1, 64);
            snapshot_set_load(set, 42, &reader.state, missing);
            for (int k = 0; k < reader.state.len; k++)
                assert_int_equal(missing[k], 0);
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

/* Four ranks at given steps; the step that the next generation resumes from. */
static void only_steps_complete_on_all_ranks_count(void **state)
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
            make_rank(&ranks[r], r, 4, SHARD_EVEN, HELD_MOMENTS_APART);
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
        int64_t step = set ? snapshot_set_step(set, LAYOUT, INT64_MAX) : -1;
        if (step != rows[i].step)
            fail_msg("row %zu: step %lld", i, (long long)step);
        snapshot_set_close(set);
        for (int r = 0; r < 4; r++)
            drop_rank(&ranks[r]);
    }
}

/* Whatever steps they are of, a copy replaces the last but one. */
static void copies_take_turns(void **state)
{
    (void)state;
    static const int64_t steps[] = {4, 7, 10, 20, 40, 41};
    make_rank(&ranks[0], 0, 1, SHARD_EVEN, HELD_WHOLE);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        save_all(1, steps[i]);
        struct snapshot_set *set = open_set(1);
        assert_int_equal(snapshot_set_step(set, LAYOUT, INT64_MAX), steps[i]);
        if (i > 0)
            assert_int_equal(snapshot_set_step(set, LAYOUT, steps[i] - 1), steps[i - 1]);
        snapshot_set_close(set);
    }
    drop_rank(&ranks[0]);
}

/* The writer may have died at any instruction: offsets never lead outside the file. */
static void malformed_files_are_refused(void **state)
{
    (void)state;
    make_rank(&ranks[0], 0, 1, SHARD_EVEN, HELD_MOMENTS_APART);
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

/* Ranks [2, 4) of 4: those of the second of two nodes. */
static void a_node_reads_its_part(void **state)
{
    (void)state;
    size_t missing[64];
    int fds[2], first, of;
    struct snapshot_set *set;
    struct rank reader;
    const float *at;
    for (int r = 0; r < 4; r++)
        make_rank(&ranks[r], r, 4, SHARD_EVEN, HELD_APART);
    save_all(4, 7);
    fds[0] = ranks[2].fd;
    fds[1] = ranks[3].fd;
    assert_int_equal(snapshot_set_open(&set, fds, 2, NULL), 0);
    assert_int_equal(snapshot_set_ranks(set, &first, &of), 2);
    assert_int_equal(first, 2);
    assert_int_equal(of, 4);
    assert_int_equal(snapshot_set_step(set, LAYOUT, INT64_MAX), 7);
    make_rank(&reader, 3, 4, SHARD_EVEN, HELD_APART);
    snapshot_set_load(set, 7, &reader.state, missing);
    for (int k = 0; k < reader.state.len; k++) {
        const struct state_part *p = &reader.state.part[k];
        const bool all = p->tensor == 5; /* the buffer, which the first rank saves */
        assert_int_equal(missing[k], all ? p->count : 0);
    }
    assert_int_equal(snapshot_set_span(set, 7, 1, "tensor 0", 0, &at).to, 0); /* another node's */
    assert_int_equal(snapshot_claims(fds, 2, 4), 7);
    assert_int_equal(snapshot_claims(fds, 2, 2), -1);
    snapshot_set_close(set);
    fds[1] = ranks[1].fd; /* not consecutive */
    assert_int_equal(snapshot_set_open(&set, fds, 2, NULL), 0);
    assert_null(set);
    drop_rank(&reader);
    for (int r = 0; r < 4; r++)
        drop_rank(&ranks[r]);
}

static void write_kept(const struct snapshot_memfds *k, int world, int first, int64_t step)
{
    for (int i = 0; i < k->now.n; i++) {
        const struct snapshot_run run = {LAYOUT, first + i, world};
        make_rank(&ranks[i], first + i, world, SHARD_EVEN, HELD_MOMENTS_APART);
        snapshot_destroy(ranks[i].writer);
        snapshot_create(&ranks[i].writer, k->now.fd[i], &run, &ranks[i].state, NULL);
    }
    save_all(k->now.n, step);
}

static void drop_written(int n)
{
    for (int r = 0; r < n; r++)
        drop_rank(&ranks[r]);
}

static void the_agent_keeps_usable_files_only(void **state)
{
    (void)state;
    struct snapshot_memfds k = {0};
    struct snapshot_memfds_claim claims[SNAPSHOT_MEMFDS_SETS];
    assert_int_equal(snapshot_memfds_claims(&k, claims), 0);
    assert_int_equal(snapshot_memfds_begin(&k, 1, 0, 2, 2, NULL), 0);
    assert_int_equal(k.now.n, 2);
    assert_int_equal(k.last.n, 0);
    write_kept(&k, 2, 0, 9);
    save_all(1, 10); /* the other one died */
    const int of_use = k.now.fd[0];
    assert_int_equal(snapshot_memfds_claims(&k, claims), 1);
    assert_int_equal(claims[0].generation, 1);
    assert_int_equal(claims[0].step, 9); /* from the heads: the step that all claim to have */
    drop_written(2);

    assert_int_equal(snapshot_memfds_begin(&k, 2, 1, 2, 2, NULL), 0);
    assert_int_equal(k.last.fd[0], of_use);
    assert_int_equal(snapshot_memfds_claims(&k, claims), 1); /* generation 2 died during startup */
    assert_int_equal(claims[0].generation, 1);
    assert_int_equal(snapshot_memfds_begin(&k, 3, 1, 2, 2, NULL), 0);
    assert_int_equal(k.last.fd[0], of_use);
    write_kept(&k, 2, 0, 11);
    assert_int_equal(snapshot_memfds_claims(&k, claims), 2);
    assert_int_equal(claims[0].generation, 3);
    assert_int_equal(claims[0].step, 11);
    assert_int_equal(claims[1].step, 9);
    drop_written(2);

    /* another node has nothing of generation 3 */
    assert_int_equal(snapshot_memfds_begin(&k, 4, 1, 2, 2, NULL), 0);
    assert_int_equal(k.last.fd[0], of_use);
    assert_int_equal(snapshot_memfds_begin(&k, 5, 1, SNAPSHOT_RANKS + 1, SNAPSHOT_RANKS + 1, NULL), -1);
    assert_int_equal(k.last.fd[0], of_use);
    assert_int_equal(snapshot_memfds_begin(&k, 6, 0, 2, 2, NULL), 0); /* an empty request */
    assert_int_equal(k.last.n, 0);
    snapshot_memfds_fini(&k);
}

/* The steps that nodes have, and the step that all of them can resume from. */
static void nodes_choose_the_same(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct snapshot_memfds_claim node[3][SNAPSHOT_MEMFDS_SETS];
        int         n[3], nodes;
        struct snapshot_memfds_claim choice;
    } rows[] = {
        {"one node", {{{2, 30}, {1, 20}}}, {2}, 1, {2, 30}},
        {"nothing", {{{0, 0}}}, {0}, 1, {0, -1}},
        {"the newer generation went back", {{{3, 10}, {1, 30}}}, {2}, 1, {3, 10}},
        {"a step apart", {{{2, 30}}, {{2, 29}}, {{2, 30}}}, {1, 1, 1}, 3, {2, 29}},
        {"the newer step is not on all nodes", {{{3, 30}, {1, 20}}, {{1, 21}}}, {2, 1}, 2, {1, 20}},
        {"in another order", {{{1, 20}}, {{3, 30}, {1, 20}}}, {1, 2}, 2, {1, 20}},
        {"nothing in common", {{{3, 30}}, {{2, 30}}}, {1, 1}, 2, {0, -1}},
        {"one has none", {{{3, 30}, {2, 25}}, {{0, 0}}}, {2, 0}, 2, {0, -1}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct snapshot_memfds_claim common[SNAPSHOT_MEMFDS_SETS];
        int n = rows[i].n[0];
        memcpy(common, rows[i].node[0], sizeof(common));
        for (int k = 1; k < rows[i].nodes; k++)
            n = snapshot_memfds_common(common, n, rows[i].node[k], rows[i].n[k]);
        const struct snapshot_memfds_claim got = snapshot_memfds_newest(common, n);
        if (got.generation != rows[i].choice.generation || got.step != rows[i].choice.step)
            fail_msg("%s: generation %d, step %lld", rows[i].what, got.generation, (long long)got.step);
    }
}

/* The same table, as a pair lies in memory or as it lay before there were pairs. */
static struct layout *make_pair(bool together)
{
    static const int64_t dim[] = {41, 24}, between[] = {5, 7};
    struct layout *l;
    layout_create(&l, NULL);
    if (together)
        layout_add_first(l, "tensor 0", TENSOR_PARAM, 2, dim, NULL);
    else
        layout_add(l, "tensor 0", TENSOR_PARAM, 2, dim, NULL);
    layout_add(l, "tensor 1", TENSOR_PARAM, 2, between, NULL);
    if (together)
        layout_add_second(l, "tensor 2", 0, NULL);
    else
        layout_add(l, "tensor 2", TENSOR_PARAM, 2, dim, NULL);
    return l;
}

/* Fills an image with the weights of a step, and seals it. */
static void write_image(struct snapshot *p, const struct layout *l, int64_t step)
{
    const struct state_source in = {.layout = l, .weights = snapshot_image(p, 0)};
    struct rank r = {.fd = -1};
    assert_int_equal(state_make(&r.state, &in, NULL), 0);
    fill(&r, step);
    snapshot_settle(p, &r.state);
    snapshot_open(p, 0);
    for (size_t i = 0; i < snapshot_chunks(p); i++)
        snapshot_look_in(p, 0, i);
    snapshot_close(p, 0, step, "notes", 5);
    state_free(&r.state);
}

static void read_image(int fd, const struct layout *l, int64_t step)
{
    struct rank r = {.weights = calloc(layout_floats(l), sizeof(float))};
    const struct state_source in = {.layout = l, .weights = r.weights};
    struct snapshot_set *set;
    size_t missing[3];
    assert_int_equal(state_make(&r.state, &in, NULL), 0);
    assert_int_equal(snapshot_set_open(&set, &fd, 1, NULL), 0);
    assert_int_equal(snapshot_set_step(set, layout_digest(l), INT64_MAX), step);
    snapshot_set_load(set, step, &r.state, missing);
    for (int k = 0; k < 3; k++)
        assert_int_equal(missing[k], 0);
    check(&r, step);
    snapshot_set_close(set);
    state_free(&r.state);
    free(r.weights);
}

/* An image names its tensors and their places: one of an earlier version, which laid them otherwise, is read. */
static void an_image_of_another_placement_is_read(void **state)
{
    (void)state;
    for (int together = 0; together < 2; together++) {
        struct layout *l = make_pair(together), *other = make_pair(!together);
        const struct snapshot_run run = {layout_digest(l), 0, 1};
        const struct state_source nowhere = {.layout = l};
        const int fd = snapshot_make(NULL);
        struct state s;
        struct snapshot *p;
        assert_true(layout_at(l, 2)->offset != layout_at(other, 2)->offset);
        assert_int_equal(state_make(&s, &nowhere, NULL), 0);
        assert_int_equal(snapshot_images(&p, fd, &run, &s, layout_floats(l), NULL), 0);
        write_image(p, l, 9);
        read_image(fd, other, 9);
        snapshot_destroy(p);
        state_free(&s);
        close(fd);
        layout_destroy(l);
        layout_destroy(other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_reads_any_other),
        cmocka_unit_test(only_steps_complete_on_all_ranks_count),
        cmocka_unit_test(copies_take_turns),
        cmocka_unit_test(malformed_files_are_refused),
        cmocka_unit_test(a_node_reads_its_part),
        cmocka_unit_test(the_agent_keeps_usable_files_only),
        cmocka_unit_test(nodes_choose_the_same),
        cmocka_unit_test(an_image_of_another_placement_is_read),
    };
    return cmocka_run_group_tests_name("snapshot", tests, setup, teardown);
}
