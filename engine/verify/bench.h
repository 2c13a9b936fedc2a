/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - how fast a training step is, and how fast BLAS alone would be
 *
 * A step is what trains: noise, forward, loss, backward, clip, optimizer, on
 * random numbers.  In turns with it, the matrix products of the step's linear
 * layers run bare, each in the faster of two ways to use all cores; attention's
 * small products are not among them; on a GPU nothing runs beside the steps.
 * Turns, because a machine's speed wanders.  In the same way steps with and without a snapshot in memory
 * (double_buffer.h) are compared.
 */
#ifndef ENGINE_VERIFY_BENCH_H
#define ENGINE_VERIFY_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model/model.h"
#include "engine/optim/optim.h"

/* What shares of a GPU's speed are counted against: bf16 on an H100 or H200, as its maker says. */
#define BENCH_PEAK_GFLOPS 989e3

struct bench_spec {
    struct model_config model;
    struct model_limits batch;
    struct optim_config optim;
    int                 micros;           /* micro-batches of a step */
    double              lr, flow_shift;
    int                 steps, warmup;
    bool                snapshots;        /* on the CPU: and what they cost */
};

struct bench_result {
    int    steps, threads;
    double ms_median, ms_min, ms_max;
    double samples_per_s, gflops;        /* at the median; FLOPs: 3 forwards */
    double mfu;                          /* gflops over BENCH_PEAK_GFLOPS on a GPU, else 0 */
    double sgemm_ms, sgemm_gflops;       /* median of the bare products of one step; 0 on a GPU */
    double sgemm_share;                  /* sgemm_ms / ms_median */
    int64_t params, rss_growth;          /* bytes, from the end of the warm-up to the end */
    /* Medians of a step, and of processor time for its update, without and with a snapshot of it; 0: not
     * measured. */
    double step_ms[2], update_ms[2];
    double loss;                         /* of the last step: a bench of NaNs would be a lie */
};

int bench_run(struct bench_result *out, const struct bench_spec *spec, struct err *err);

#endif
