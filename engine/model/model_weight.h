/* SPDX-License-Identifier: Apache-2.0 */
/* model_weight.h - a weight, given by its offset in the block of weights; its gradient has the same offset */
#ifndef ENGINE_MODEL_MODEL_WEIGHT_H
#define ENGINE_MODEL_MODEL_WEIGHT_H

#include <stddef.h>

#include "kernels/kernels.h"

enum { NO_WEIGHT = -1 };
typedef ptrdiff_t weight_at; /* offset in floats, or NO_WEIGHT */

#endif
