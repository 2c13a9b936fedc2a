/* SPDX-License-Identifier: Apache-2.0 */
/* profile_table.c - see profile_table.h */
#include "engine/cli/profile_table.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda.h"

static int by_time(const void *a, const void *b)
{
    const double x = (*(const struct kern_profile_row *const *)a)->ms;
    const double y = (*(const struct kern_profile_row *const *)b)->ms;
    return (x < y) - (x > y);
}

static void print_row(const struct kern_profile_row *r, double all_ms)
{
    char kernel[96], grid[40] = "-", speed[24] = "-";
    const double flops = 2.0 * (double)r->m * (double)r->n * (double)r->k * (double)r->calls;
    snprintf(kernel, sizeof(kernel), "%s", r->kernel[0] ? r->kernel : "-");
    if (r->k)
        snprintf(kernel, sizeof(kernel), "%lldx%lldx%lld", (long long)r->m, (long long)r->n, (long long)r->k);
    if (r->k && r->ms > 0)
        snprintf(speed, sizeof(speed), "%.1f", flops / r->ms * 1e-9);
    if (r->grid[0])
        snprintf(grid, sizeof(grid), "%u,%u,%u", r->grid[0], r->grid[1], r->grid[2]);
    printf("profile %-20s %-44s %-13s %6ld %10.4f %6.2f %8s\n", r->op, kernel, grid, r->calls, r->ms,
           all_ms > 0 ? 100 * r->ms / all_ms : 0, speed);
}

void profile_table_print(const struct kern_profile_row *rows, int count, double all_ms, const char *what)
{
    const struct kern_profile_row **order = calloc((size_t)count + 1, sizeof(*order));
    double sum = 0;
    if (!order)
        return;
    for (int i = 0; i < count; i++) {
        order[i] = &rows[i];
        sum += rows[i].ms;
    }
    qsort(order, (size_t)count, sizeof(*order), by_time);
    printf("\n#       %-20s %-44s %-13s %6s %10s %6s %8s\n", "operation", "kernel, or product m x n x k", "grid", "calls",
           "ms", "%", "TFLOP/s");
    for (int i = 0; i < count; i++)
        print_row(order[i], all_ms);
    printf("kernels      %9.3f ms   of %.3f ms of %s, timed one by one\n", sum, all_ms, what);
    free(order);
}
