/* SPDX-License-Identifier: Apache-2.0 */
/* rounded.cc - operations of double that are rounded one by one; in a file of their own, so that none are joined */
#include "cuda_runtime.h"

double __dmul_rn(double a, double b)
{
    return a * b;
}

double __dadd_rn(double a, double b)
{
    return a + b;
}

double __dsub_rn(double a, double b)
{
    return a - b;
}

double __dsqrt_rn(double a)
{
    return __builtin_sqrt(a);
}
