/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.h - which part of what a process does is only waiting
 *
 * Pure: no clock, no I/O.
 * A thread that waits wakes up now and then to poll: gloo and a TCPStore's client each 10 ms, for 20 to 30 us;
 * torchrun's agent each 100 ms, for 125 to 450 us. Threads that work use more per voluntary switch, or much more than
 * 2 % of the time. Ranks that wait for each other exchange bytes, too: only bytes to or from others are work.
 */
#ifndef AGENT_MONITOR_WAITING_H
#define AGENT_MONITOR_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tcp_socket;

/* CPU time of one thread in one window less what waiting would have cost: 600 us per voluntary context switch, at most
 * 2 % of the window; all of those 2 % if the switches are not known (-1). */
uint64_t waiting_work_us(uint64_t cpu_ns, int64_t switches, int64_t window_ms);

/* Does this socket of the job connect it with others, by the job's own sockets on this machine? Inside are a socket of
 * the job, a client of a port at which it listens, and the machine of its first rank. */
bool waiting_for_others(const struct tcp_socket *s, const struct tcp_socket *own, size_t n, const uint8_t first[16]);

#endif
