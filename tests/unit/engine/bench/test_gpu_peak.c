/* SPDX-License-Identifier: Apache-2.0 */
/* test_gpu_peak.c - the peak of a GPU follows from its name, and is that of its form factor */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/bench/gpu_peak.h"

static void test_names(void **state)
{
    (void)state;
    static const struct {
        const char *name; /* as cudaGetDeviceProperties() reports it */
        int         tflops;
    } rows[] = {
        {"NVIDIA H200", 989},           {"NVIDIA H200 NVL", 835},         {"NVIDIA GH200 480GB", 989},
        {"NVIDIA H100 80GB HBM3", 989}, {"NVIDIA H100 PCIe", 756},        {"NVIDIA H100 NVL", 835},
        {"NVIDIA A100-SXM4-40GB", 312}, {"NVIDIA A100 80GB PCIe", 312},   {"NVIDIA A10", 125},
        {"NVIDIA A10G", 0},             {"NVIDIA L4", 121},               {"NVIDIA L40", 181},
        {"NVIDIA L40S", 362},           {"NVIDIA B200", 2250},            {"NVIDIA GB200", 0},
        {"NVIDIA GeForce RTX 4090", 165}, {"NVIDIA GeForce RTX 4090 D", 0}, {"NVIDIA GeForce RTX 4090 Laptop GPU", 0},
        {"Tesla T4", 0},                {"cpu", 0},                       {"", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal((int)(gpu_peak_bf16(rows[i].name) * 1e-12 + 0.5), rows[i].tflops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
