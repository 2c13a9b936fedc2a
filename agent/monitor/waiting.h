/* SPDX-License-Identifier: Apache-2.0 */
/* waiting.h - how much of a process's activity is only waiting
 *
 * Pure: no clock, no I/O.
 * A waiting thread wakes up from time to time to poll: gloo and a TCPStore client every 10 ms, for 20 to 30 us;
 * torchrun's agent every 100 ms, for 125 to 450 us. Threads that work use more per voluntary switch, or much more than
 * 2 % of the time. Ranks that wait for each other also exchange bytes: only bytes to or from outside the job are work.
 */
#ifndef AGENT_MONITOR_WAITING_H
#define AGENT_MONITOR_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tcp_socket;

/* CPU time of one thread in one window, minus what waiting would have cost: 600 us per voluntary context switch, at
 * most 2 % of the window; the full 2 % if the number of switches is not known (-1). */
uint64_t waiting_work_us(uint64_t cpu_ns, int64_t switches, int64_t window_ms);

/* Does this socket of the job connect it with something outside? Inside are, judging by the job's own sockets on
 * this machine: a socket of the job, a client of a port on which it listens, and the machine of its first rank. */
bool waiting_for_others(const struct tcp_socket *s, const struct tcp_socket *own, size_t n, const uint8_t first[16]);

#endif
