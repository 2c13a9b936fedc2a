/* SPDX-License-Identifier: Apache-2.0 */
/* flow.h - rectified flow with 1000 training steps: tables, noising, loss, Euler
 *
 * beta_i = linspace(1, 0.001, 1000); s_i = 1 - beta_i; sigma_i = f s_i / (1 + (f-1) s_i);
 * alpha_i = 1 - sigma_i; all in double, then rounded to float.  The model sees
 * t_i = trunc(1000 sigma_i), computed in double.  x_t = alpha x0 + sigma noise,
 * target v = noise - x0, loss = mean (v - out)^2 per sample, then over the batch.
 * Source: NVlabs/Sana, diffusion/model/gaussian_diffusion.py and respace.py.
 */
#ifndef ENGINE_MODEL_FLOW_H
#define ENGINE_MODEL_FLOW_H

#include <stdint.h>

enum { FLOW_STEPS = 1000 };

struct flow {
    float sigma[FLOW_STEPS];
    float alpha[FLOW_STEPS];
    float t_model[FLOW_STEPS];
};

void flow_init(struct flow *f, double shift);

/* Index of a timestep from a standard normal draw z: trunc(1000 * sigmoid(mean + std z)). */
int flow_index(double z, double mean, double std);

/* x_t and the velocity target, n numbers of one sample. */
void flow_noise(float *x_t, float *target, const float *x0, const float *noise, int64_t n, float alpha, float sigma);

#endif
