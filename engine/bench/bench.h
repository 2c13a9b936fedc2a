/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - benchmark: the time of a training step
 *
 * A step is a real one: noise, forward, loss, backward, clip, optimizer, on random numbers.  Steps with and without a
 * snapshot in memory (double_buffer.h) alternate, because a machine's speed varies over time.
 */
#ifndef ENGINE_BENCH_BENCH_H
#define ENGINE_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/model/model.h"
#include "engine/optim/optim.h"

struct kern_profile_row; /* kernels/cuda.h */

struct bench_spec {
    struct model_config model;
    struct model_limits batch;
    struct optim_config optim;
    int                 micros;           /* micro-batches of a step */
    double              lr, flow_shift;
    int                 steps, warmup;
    bool                snapshots;        /* on the CPU: measure their cost */
    bool                profile;          /* on a GPU: profile one more step, by kernel */
};

struct bench_result {
    int    steps, threads;
    double ms_median, ms_min, ms_max;
    double samples_per_s, gflops;        /* at the median; FLOPs: 3 forwards */
    double peak_gflops;                  /* peak of this GPU in bf16 (gpu_peak.h); 0: unknown, or bf16 not in use */
    double mfu;                          /* gflops over peak_gflops; 0 without that */
    int64_t params, rss_growth;          /* growth in bytes after the warm-up */
    /* Medians of a step, and of the processor time of its update, without and with a snapshot; 0:
     * not measured. */
    double step_ms[2], update_ms[2];
    double loss;                         /* of the last step: shows NaNs */
    const struct kern_profile_row *profile; /* valid until the next one; or NULL */
    int    profile_rows;
    double profile_ms;                   /* duration of the profiled step, by the clock */
};

int bench_run(struct bench_result *out, const struct bench_spec *spec, struct err *err);

#endif
