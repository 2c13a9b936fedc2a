/* SPDX-License-Identifier: Apache-2.0 */
/* python_random.h - the numbers of Python's random.random() after random.seed(n)
 *
 * Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), seeded by init_by_array({n}); a number is two outputs,
 * (27 bits 2^26 + 26 bits) / 2^53.  Used only to repeat the draws of the authors' readers.
 */
#ifndef TESTS_VERIFY_PYTHON_RANDOM_H
#define TESTS_VERIFY_PYTHON_RANDOM_H

#include <stdint.h>

/* The first number after random.seed(seed). */
double python_random_first(uint32_t seed);

#endif
