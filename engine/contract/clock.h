/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the time that deadlines are measured in, and the wait that ends with it
 *
 * By itself in a file: a test brings another one (tests/unit/engine/contract/clock_fixture.h), on
 * which an hour passes in no time.
 */
#ifndef ENGINE_CONTRACT_CLOCK_H
#define ENGINE_CONTRACT_CLOCK_H

#include <stdint.h>

/* Since some moment in the past; never goes back. */
int64_t clock_ms(void);
uint64_t clock_ns(void);

/* Until the descriptor can be read, at most so long; -1: just so long. */
void clock_wait(int fd, int ms);

#endif
