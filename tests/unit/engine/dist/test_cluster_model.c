/* SPDX-License-Identifier: Apache-2.0 */
/* test_cluster_model.c - the model of communication: properties that hold for all rates */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "engine/dist/cluster_model.h"

static void near(double got, double want)
{
    if (fabs(got - want) > 1e-9 * fabs(want))
        fail_msg("%.12g instead of %.12g", got, want);
}

/* By hand: 2^20 numbers are one bucket; two nodes of two GPUs. */
static void formula(void **state)
{
    const struct cluster_model_net net = {"", 1e-6, 1e9, 1e-5, 1e8, 1};
    const struct cluster_model_job job = {1 << 20, 0.1};
    const double bytes = 4 << 20;
    const double one = 1e-6 + bytes / 2 / 1e9 + 1e-5 + bytes / 2 / 1e8;
    struct cluster_model_cost c = cluster_model_cost(&net, &job, CLUSTER_MODEL_DDP, 2, 2);
    (void)state;
    near(c.comm_s, 2 * one);
    near(c.exposed_s, 2 * one); /* a single bucket cannot overlap */
    near(c.wire_bytes, bytes);
    near(c.efficiency, 0.1 / (0.1 + 2 * one));
    near(cluster_model_cost(&net, &job, CLUSTER_MODEL_FSDP, 2, 2).comm_s, 3 * one);
}

/* Many buckets and much computing: only the last bucket is exposed. With zero1 a step ends with
 * a wait for the weights that others have updated. */
static void overlap_leaves_the_last_bucket(void **state)
{
    const struct cluster_model_net net = {"", 0, 1e9, 0, 1e8, 1};
    const int buckets = 10;
    const struct cluster_model_job job = {(double)(buckets << 20), 1000};
    const double bytes = (double)(buckets * (4 << 20)), one = bytes / 2 / 1e9 + bytes / 2 / 1e8;
    (void)state;
    near(cluster_model_cost(&net, &job, CLUSTER_MODEL_DDP, 2, 2).exposed_s, 2 * one / buckets);
    near(cluster_model_cost(&net, &job, CLUSTER_MODEL_ZERO1, 2, 2).exposed_s, one / buckets + one);
    near(cluster_model_cost(&net, &job, CLUSTER_MODEL_FSDP, 2, 2).exposed_s, one / buckets + 2 * one / buckets);
}

static void more_nodes_cost_more(void **state)
{
    const struct cluster_model_job job = {1.6e9, 0.5};
    (void)state;
    near(cluster_model_cost(&cluster_model_nets[0], &job, CLUSTER_MODEL_DDP, 1, 1).efficiency, 1);
    for (int way = 0; way < CLUSTER_MODEL_WAYS; way++)
        for (int k = 0; k < 2; k++) {
            double before = 1;
            for (int nodes = 1; nodes <= 64; nodes *= 2) {
                struct cluster_model_cost c =
                    cluster_model_cost(&cluster_model_nets[k], &job, (enum cluster_model_way)way, nodes, 8);
                assert_true(c.exposed_s > 0 && c.exposed_s <= c.comm_s);
                assert_true(c.efficiency <= before); /* more nodes never cost less */
                assert_true(nodes > 1 || c.wire_bytes == 0);
                before = c.efficiency;
            }
        }
    assert_true(cluster_model_cost(&cluster_model_nets[1], &job, CLUSTER_MODEL_DDP, 8,
                                   8).efficiency <
                cluster_model_cost(&cluster_model_nets[0], &job, CLUSTER_MODEL_DDP, 8, 8).efficiency);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formula),
        cmocka_unit_test(overlap_leaves_the_last_bucket),
        cmocka_unit_test(more_nodes_cost_more),
    };
    return cmocka_run_group_tests_name("cluster", tests, NULL, NULL);
}
