/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c - see histogram.h */
#include "controller/metrics/histogram.h"

#include <math.h>

const double histogram_step_s[HISTOGRAM_BOUNDS] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60 };
const double histogram_wait_s[HISTOGRAM_BOUNDS] = { 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 21600, 86400, 259200,
                                                    604800 };

void histogram_add(struct histogram *h, double value, int64_t times)
{
    int i = 0;
    if (!isfinite(value) || value < 0 || times <= 0)
        return;
    while (i < HISTOGRAM_BOUNDS && value > h->bounds[i])
        i++;
    h->count[i] += times;
    h->sum += value * (double)times;
}

int64_t histogram_below(const struct histogram *h, int i)
{
    int64_t sum = 0;
    for (int k = 0; k <= i; k++)
        sum += h->count[k];
    return sum;
}
