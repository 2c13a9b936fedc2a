/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_peak.h - the highest speed of a GPU in bf16, from its data sheet
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_BENCH_GPU_PEAK_H
#define ENGINE_BENCH_GPU_PEAK_H

/* Dense bf16 FLOPs per second with fp32 accumulation, for a GPU by the name that CUDA reports ("NVIDIA H100 80GB
 * HBM3"); 0: not in the table. The reference for MFU. */
double gpu_peak_bf16(const char *name);

#endif
