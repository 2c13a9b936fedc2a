/* SPDX-License-Identifier: Apache-2.0 */
/* test_snapshot_share.c - ranks on several nodes assemble a snapshot: with real processes */
#include "tests/unit/engine/checkpoint/snapshot_fixture.h"
#include "tests/unit/engine/dist/dist_fixture.h"

#include "engine/checkpoint/snapshot_internal.h"
#include "engine/checkpoint/snapshot_share.h"

enum { WAIT_MS = 60000 };

static struct {
    enum held held;
    int64_t   step;   /* the step that all find */
    int       without; /* the node that has lost its files, -1: none */
} now;

/* A single rank has no other node (meeting()). */
static bool is_one_node(void)
{
    return layout == ONE_NODE || world == 1;
}

static int node_of(int rank)
{
    int node = 0;
    while (!is_one_node() && rank >= node_first[node + 1])
        node++;
    return node;
}

static int first_of(int node)
{
    return is_one_node() ? 0 : node_first[node];
}

static int end_of(int node)
{
    return is_one_node() ? world : node_first[node + 1];
}

static struct snapshot_set *files_here(int rank)
{
    const int node = node_of(rank), first = first_of(node);
    int fds[SAVERS];
    struct snapshot_set *set = NULL;
    for (int r = first; r < end_of(node); r++)
        fds[r - first] = ranks[r].fd;
    if (node != now.without)
        snapshot_set_open(&set, fds, end_of(node) - first, NULL);
    return set;
}

/* This rank has the saved numbers, and received only those that it lacked. */
static int restore(struct dist *d, const struct snapshot_set *set, int rank, struct err *err)
{
    struct rank reader;
    uint64_t came;
    size_t held = 0;
    make_rank(&reader, rank, world, SHARD_EVEN, now.held);
    NEED(snapshot_share_load(d, set, now.step, &reader.state, WAIT_MS, &came, err) == 0);
    for (int i = 0; i < reader.state.len; i++) {
        const struct state_part *p = &reader.state.part[i];
        for (size_t k = p->from; k < p->to; k++)
            NEED(p->data[k - p->from] == value(p, k, now.step));
        held += p->to - p->from;
    }
    drop_rank(&reader);
    const bool far = !is_one_node();
    NEED(far || came == 0);
    NEED(came < held * sizeof(float));
    NEED(!far || now.held == HELD_APART || came > 0);
    return 0;
}

static int go_on(struct dist *d, int rank, struct err *err)
{
    int64_t step;
    struct snapshot_set *set = files_here(rank);
    const bool first = first_of(node_of(rank)) == rank;
    NEED(snapshot_share_step(d, set, LAYOUT, first, WAIT_MS, &step, err) == 0);
    NEED(step == now.step);
    int rc = step >= 0 ? restore(d, set, rank, err) : 0;
    snapshot_set_close(set);
    return rc;
}

/* Changes one number of a copy. */
static void tear(struct rank *r, int64_t step)
{
    struct snapshot_head *h = *(struct snapshot_head **)(void *)r->writer; /* its first member */
    for (uint64_t i = 0; i < h->copies; i++)
        if (h->copy[i].step == step)
            ((char *)h)[h->copy[i].at + SNAPSHOT_NOTES] ^= 1;
}

/* All have step 41; then all but the last one have 42; then there is no common step; then a node
 * has lost its memory. */
static void try_with(int n, enum held held)
{
    now.held = held;
    now.without = -1;
    now.step = 41;
    world = n;
    meeting(n);
    for (int r = 0; r < n; r++)
        make_rank(&ranks[r], r, n, SHARD_EVEN, held);
    save_all(n, 40);
    save_all(n, 41);
    run(n, go_on);
    save_all(n - 1, 42);
    run(n, go_on);
    if (n > 1) {
        tear(&ranks[0], 41); /* which has only 42 then, and the last one only 41 */
        now.step = -1;
        run(n, go_on);
    }
    now.without = node_of(n - 1);
    now.step = -1;
    run(n, go_on);
    for (int r = 0; r < n; r++)
        drop_rank(&ranks[r]);
}

static void all_go_on_from_what_is_somewhere(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int held = HELD_WHOLE; held <= HELD_APART; held++)
            try_with(sizes[i], (enum held)held);
}

/* More than one transfer: pieces end inside a tensor. */
static void pieces_end_anywhere(void **state)
{
    (void)state;
    layout_destroy(tensors);
    assert_int_equal(make_tensors(9000), 0);
    try_with(2, HELD_WHOLE);
    layout_destroy(tensors);
    assert_int_equal(make_tensors(37), 0);
}

static int open_all(void **state)
{
    return make_tensors(37) || setup(state);
}

static int close_all(void **state)
{
    layout_destroy(tensors);
    return teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {EVERYWHERE(all_go_on_from_what_is_somewhere),
                                       IN(EACH_ALONE, pieces_end_anywhere)};
    return cmocka_run_group_tests_name("snapshot_share", tests, open_all, close_all);
}
