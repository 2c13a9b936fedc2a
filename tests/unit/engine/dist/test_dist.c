/* SPDX-License-Identifier: Apache-2.0 */
/* test_dist.c - collectives of 1 to 8 processes: exact results in one order */
#include "engine/dist/bucket_plan.h"
#include "tests/unit/engine/dist/dist_fixture.h"

/* --- numbers ----------------------------------------------------------------------------- */

/* Numbers whose float sum depends on the order. */
static float number(int rank, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)rank * 40503u + 12345u;
    x ^= x >> 15;
    return (float)(int32_t)(x * 2246822519u) * 1e-3f * (rank % 3 ? 1.0f : 1e-4f);
}

/* In the order of ranks: on each node, then of nodes. */
static float sum_in_order(size_t i)
{
    const struct dist_bootstrap *m = meeting(world);
    float all = 0;
    for (int k = 0; k < (m ? m->nodes : 1); k++) {
        int from = m ? node_first[k] : 0, to = m ? node_first[k + 1] : world;
        float s = number(from, i);
        for (int r = from + 1; r < to; r++)
            s += number(r, i);
        all = k ? all + s : s;
    }
    return all;
}

static const size_t sizes[] = {0, 1, 2, 15, 16, 17, 1000, 4095, 4096, 4097, 65537, 300001, 1048583};

static int all_reduce(struct dist *d, int rank, struct err *err)
{
    float *x = malloc(2000000 * sizeof(*x));
    NEED(x);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        size_t n = sizes[k];
        for (size_t i = 0; i < n; i++)
            x[i] = number(rank, i);
        x[n] = -7;
        NEED(dist_all_reduce(d, x, n, DIST_F32, DIST_SUM, err) == 0 && dist_wait(d, err) == 0);
        for (size_t i = 0; i < n; i++)
            NEED(x[i] == sum_in_order(i));
        NEED(x[n] == -7);
    }
    free(x);
    return 0;
}

static int parts(struct dist *d, int rank, struct err *err)
{
    float *x = malloc(2000000 * sizeof(*x));
    NEED(x);
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        size_t n = sizes[k], from, to;
        for (size_t i = 0; i < n; i++)
            x[i] = number(rank, i);
        NEED(dist_reduce_scatter(d, x, n, DIST_F32, DIST_SUM, err) == 0);
        NEED(dist_wait(d, err) == 0);
        dist_slice(&from, &to, n, DIST_F32, rank, world);
        for (size_t i = from; i < to; i++)
            NEED(x[i] == sum_in_order(i));
        for (size_t i = 0; i < n; i++)
            if (i < from || i >= to)
                x[i] = -1;
        NEED(dist_all_gather(d, x, n, DIST_F32, err) == 0 && dist_wait(d, err) == 0);
        for (size_t i = 0; i < n; i++)
            NEED(x[i] == sum_in_order(i));
        for (size_t i = 0; i < n; i++)
            x[i] = number(rank, i);
        NEED(dist_broadcast(d, x, n, DIST_F32, world - 1, err) == 0 && dist_wait(d, err) == 0);
        for (size_t i = 0; i < n; i++)
            NEED(x[i] == number(world - 1, i));
    }
    free(x);
    return 0;
}

/* Many calls at once, of several types, with polling between: all run in order. */
static int queued(struct dist *d, int rank, struct err *err)
{
    enum { N = 40 };
    static int64_t a[N][3000];
    static double b[N][5];
    unsigned char text[64 * RANKS] = {0};
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 3000; i++)
            a[k][i] = (int64_t)(rank + 1) << (k % 50);
    for (int k = 0; k < N; k++) {
        for (int i = 0; i < 5; i++)
            b[k][i] = (rank * 7 + k) % world + i;
        NEED(dist_all_reduce(d, a[k], 3000, DIST_I64, DIST_SUM, err) == 0);
        NEED(dist_all_reduce(d, b[k], 5, DIST_F64, DIST_MAX, err) == 0);
        NEED(dist_poll(d, err) >= 0);
    }
    text[64 * rank] = (unsigned char)(rank + 1);
    NEED(dist_all_gather(d, text, (size_t)(64 * world), DIST_U8, err) == 0);
    NEED(dist_barrier(d, err) == 0);
    NEED(dist_wait(d, err) == 0 && dist_poll(d, err) == 1);
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 3000; i++)
            NEED(a[k][i] == (int64_t)(world * (world + 1) / 2) << (k % 50));
    for (int k = 0; k < N; k++) {
        double most = 0;
        for (int r = 0; r < world; r++)
            most = (r * 7 + k) % world > most ? (r * 7 + k) % world : most;
        NEED(b[k][4] == most + 4);
    }
    for (int r = 0; r < world; r++)
        NEED(text[64 * r] == r + 1);
    NEED(dist_stats(d)->calls == 2 * N + 2);
    return 0;
}

static int leave_unevenly(struct dist *d, int rank, struct err *err)
{
    float x[100000];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 100000; i++)
            x[i] = 1;
        if (rank == k % world)
            nap();
        NEED(dist_all_reduce(d, x, 100000, DIST_F32, DIST_SUM, err) == 0 && dist_wait(d, err) == 0);
        NEED(x[99999] == (float)world);
    }
    return 0; /* a rank that is done leaves while others may still copy */
}

static void right_numbers(void **state)
{
    (void)state;
    for (int n = 1; n <= RANKS; n++) {
        run(n, all_reduce);
        run(n, parts);
        run(n, queued);
        run(n, leave_unevenly);
    }
}

/* --- bytes ------------------------------------------------------------------------------- */

enum { GRADIENTS = (1 << 20) + 70016 };

/* The gradients of a step, in their buckets. */
static int step(struct dist *d, int rank, struct err *err)
{
    struct bucket_plan plan = bucket_plan_even(GRADIENTS, sizeof(float));
    float *x = calloc(GRADIENTS, sizeof(*x));
    struct bucket b;
    (void)rank;
    NEED(x);
    while (bucket_plan_next(&plan, 0, &b))
        NEED(dist_all_reduce(d, x + b.from, b.to - b.from, DIST_F32, DIST_SUM, err) == 0);
    NEED(dist_wait(d, err) == 0);
    free(x);
    return 0;
}

/* Bytes that a node sends in a step: to each other node its share of that node's sum, and its own
 * sums to all. This is the minimum, and ours sends no more, except at the ends of slices. */
static void a_step_sends_no_more_than_it_must(void **state)
{
    (void)state;
    for (int n = 1; n <= RANKS; n += n < 4 ? 1 : 2) {
        run(n, step);
        const struct dist_bootstrap *m = meeting(n);
        uint64_t all = 0;
        for (int node = 0; m && node < m->nodes; node++) {
            const double here = (double)(node_first[node + 1] - node_first[node]) / n;
            const double least = (1 - here + here * (m->nodes - 1)) * GRADIENTS * sizeof(float);
            uint64_t sent = 0;
            for (int r = node_first[node]; r < node_first[node + 1]; r++)
                sent += board->rank[r].wire;
            if ((double)sent < 0.99 * least || (double)sent > 1.01 * least)
                fail_msg("node %d of %d, %d ranks: %.0f bytes, least %.0f", node, m->nodes, n, (double)sent, least);
            all += sent;
        }
        if (m) { /* in total 2 (N - 1) times the gradients on N nodes */
            const double least = 2.0 * (m->nodes - 1) * GRADIENTS * sizeof(float);
            assert_true((double)all > 0.999 * least && (double)all < 1.001 * least);
        }
        for (int r = 0; !m && r < n; r++)
            assert_int_equal(board->rank[r].wire, 0);
    }
}

/* No rank leaves a barrier before all have entered. */
static int bootstrap(struct dist *d, int rank, struct err *err)
{
    for (int k = 1; k <= 50; k++) {
        board->rank[rank].ms = k;
        NEED(dist_barrier(d, err) == 0 && dist_wait(d, err) == 0);
        for (int r = 0; r < world; r++)
            NEED(board->rank[r].ms >= k);
        NEED(dist_barrier(d, err) == 0 && dist_wait(d, err) == 0);
    }
    return 0;
}

static void barriers(void **state)
{
    (void)state;
    run(2, bootstrap);
    run(5, bootstrap);
}

static void slices(void **state)
{
    (void)state;
    for (size_t n = 0; n < 400; n++)
        for (int p = 1; p <= 9; p++) {
            size_t at = 0, from, to;
            for (int i = 0; i < p; i++) {
                dist_slice(&from, &to, n, DIST_F32, i, p);
                assert_true(from == at && to >= from && (from % 16 == 0 || from == n));
                at = to;
            }
            assert_true(at == n);
        }
    size_t from, to;
    dist_slice(&from, &to, 64 * 3, DIST_U8, 2, 3); /* records of one unit: one per rank */
    assert_true(from == 128 && to == 192);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices),
        EVERYWHERE(right_numbers),
        EVERYWHERE(barriers),
        EVERYWHERE(a_step_sends_no_more_than_it_must),
    };
    return cmocka_run_group_tests_name("dist", tests, setup, teardown);
}
