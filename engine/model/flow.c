/* SPDX-License-Identifier: Apache-2.0 */
/* flow.c - see flow.h
 *
 * The order of the double operations follows the authors' code: with another order one value in
 * seven of t_model would be off by one.
 */
#include "engine/model/flow.h"

#include <math.h>

void flow_init(struct flow *f, double shift)
{
    const double step = (0.001 - 1.0) / (FLOW_STEPS - 1);
    for (int i = 0; i < FLOW_STEPS; i++) {
        double beta = i == FLOW_STEPS - 1 ? 0.001 : i * step + 1.0;
        double s = 1.0 - beta;
        double sigma = shift * s / (1 + (shift - 1) * s);
        f->sigma[i] = (float)sigma;
        f->alpha[i] = (float)(1.0 - sigma);
        f->t_model[i] = (float)(int64_t)(sigma * FLOW_STEPS);
    }
}

int flow_index(double z, double mean, double std)
{
    int i = (int)(FLOW_STEPS / (1.0 + exp(-(mean + std * z))));
    return i < FLOW_STEPS ? i : FLOW_STEPS - 1;
}

void flow_noise(float *x_t, float *target, const float *x0, const float *noise, int64_t n, float alpha, float sigma)
{
    for (int64_t i = 0; i < n; i++) {
        x_t[i] = alpha * x0[i] + sigma * noise[i];
        target[i] = noise[i] - x0[i];
    }
}
