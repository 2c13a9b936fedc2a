/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_peak.c - see gpu_peak.h
 *
 * Pure: no clock, no I/O.
 *
 * NVIDIA's data sheets of A100, H100, H200, GH200, B200, L4, L40S and A10 give dense rates, or twice as much "with
 * sparsity". GeForce: NVIDIA's white papers on GA102 and Ada, "Peak BF16 Tensor TFLOPS with FP32 Accumulate".
 */
#include "engine/bench/gpu_peak.h"

#include <stddef.h>
#include <string.h>

/* The first row whose words a name contains: variants with another form factor come first. */
static const struct peak {
    const char *model, *variant; /* variant: "" for all others */
    double      tflops;
} peaks[] = {
    {"GB200", "", 0},     {"GH200", "", 989},   {"B200", "", 2250},   {"H200", "NVL", 835},     {"H200", "", 989},
    {"H100", "PCIe", 756}, {"H100", "NVL", 835}, {"H100", "", 989},   {"A100", "", 312},        {"A10G", "", 0},
    {"NVIDIA A10", "", 125}, {"L40S", "", 362}, {"L40", "", 181},     {"NVIDIA L4", "", 121},   {"Laptop", "", 0},
    {"RTX 4090 D", "", 0}, {"RTX 4090", "", 165}, {"RTX 3090", "", 71},
};

double gpu_peak_bf16(const char *name)
{
    for (size_t i = 0; i < sizeof(peaks) / sizeof(peaks[0]); i++)
        if (strstr(name, peaks[i].model) && strstr(name, peaks[i].variant))
            return peaks[i].tflops * 1e12;
    return 0;
}
