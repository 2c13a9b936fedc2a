/* SPDX-License-Identifier: Apache-2.0 */
/* timestep_freqs.h - f_i = exp(-ln(10000) i / 128), rounded as in the authors' framework
 *
 * Its vectorised expf is off by one unit in the last place for 15 of the 128 values,
 * which shows when multiplied by a timestep of 999; so the values are stored.
 */
#ifndef ENGINE_MODEL_TIMESTEP_FREQS_H
#define ENGINE_MODEL_TIMESTEP_FREQS_H

enum { TIMESTEP_FREQS = 128 };

extern const float timestep_freqs[TIMESTEP_FREQS];

#endif
