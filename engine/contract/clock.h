/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - monotonic clock for deadlines, and a wait that ends at one
 *
 * A separate file, so that tests can replace it by a virtual clock
 * (tests/unit/engine/contract/clock_fixture.h).
 */
#ifndef ENGINE_CONTRACT_CLOCK_H
#define ENGINE_CONTRACT_CLOCK_H

#include <stdint.h>

/* Since an arbitrary moment in the past; never goes back. */
int64_t clock_ms(void);
uint64_t clock_ns(void);

/* Until the descriptor is readable or the time is up; -1: only wait for the time. */
void clock_wait(int fd, int ms);

#endif
