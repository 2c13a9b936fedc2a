/* SPDX-License-Identifier: Apache-2.0 */
/* virtual_process.h - programs that run whole inside one process, on a virtual clock
 *
 * A virtual process is a program's main function on a stack of its own, with threads that have stacks, too. One
 * runs at a time, until it waits: in uv_run() between any two callbacks (virtual_uv.c), in clock_wait(), in a
 * condition variable (virtual_thread.c). The simulator continues one of those whose wait is over, drawn from the
 * seed; when there is none, it sets the clock to the next one's time. So the same seed makes the same history.
 *
 *   sim_open(seed);
 *   struct sim_process *daemon = sim_start("daemon", run_daemon, &options);
 *   while (...) {
 *       if (!sim_turn())                            nobody can run now
 *           sim_clock_to(min(sim_due(), the world's next event));
 *   }
 *   sim_kill(daemon);                               as by SIGKILL: between two callbacks
 *
 * What a killed process had allocated stays allocated; each world runs in a child process of the test program.
 * Descriptors that it had open are closed if its files are opened through the wrapped calls of virtual_thread.c.
 */
#ifndef TESTS_SIM_VIRTUAL_PROCESS_H
#define TESTS_SIM_VIRTUAL_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_process;
struct sim_thread;

/* ---- the simulator's side: not from within a process ---- */

void sim_open(uint64_t seed);
void sim_close(void);

/* It begins to run in a later turn. NULL: out of memory. */
struct sim_process *sim_start(const char *name, void (*main)(void *arg), void *arg);

/* Runs one process until it waits again; false: none can run now. */
bool sim_turn(void);

/* When the next process can run, in ns; INT64_MAX: not before something happens to one. */
int64_t sim_due(void);

/* Never back. */
void sim_clock_to(int64_t ns);

/* Ends it, with all its threads; it is freed by sim_close(). From within the process it does not return. */
void sim_kill(struct sim_process *p);
/* Its uv_signal_t handles for this number are called. */
void sim_signal(struct sim_process *p, int number);
/* It gets no processor until then. */
void sim_stall(struct sim_process *p, int64_t until_ns);

bool sim_alive(const struct sim_process *p);    /* neither returned from main nor killed */
const char *sim_name(const struct sim_process *p);
/* For whoever starts it; NULL at first. */
void sim_set_data(struct sim_process *p, void *data);
void *sim_data(const struct sim_process *p);

/* Called when a process has ended, killed or not. */
void sim_on_end(void (*ended)(struct sim_process *p));

/* ---- from anywhere ---- */

/* The process that runs, and its thread; NULL in the simulator. */
struct sim_process *sim_current(void);
struct sim_thread *sim_thread(void);

uint64_t sim_chance(void);
int64_t sim_between(int64_t low, int64_t high);

/* ---- clocks (virtual_clock.c has those of engine/base/clock.h) ---- */

int64_t sim_now(void);                  /* monotonic, ns */
int64_t sim_wall_ns(void);              /* since 1970 */
int64_t sim_boot_ns(void);
void sim_wall_jump(int64_t ns);         /* the clock is set; may go back */
void sim_suspend(int64_t ns);           /* wall and boot clock continue, the monotonic one does not */
/* What each callback takes, in ns: drawn from 1 to this. Default 20000; 0: nothing. */
void sim_callback_cost(int64_t ns);

/* ---- for other stand-ins: what blocks a thread ---- */

/* Returns when ready(arg) is true, or at `until_ns`: true if it was ready. `ready` NULL: only the time. Other processes
 * run meanwhile. In the simulator itself it returns at once. */
bool sim_wait(bool (*ready)(void *arg), void *arg, int64_t until_ns);

/* A thread of the process that runs; NULL: out of memory. */
struct sim_thread *sim_thread_start(void *(*run)(void *arg), void *arg);
bool sim_thread_ended(const struct sim_thread *t);

/* For virtual_uv.c: where a process has its loops, and how a signal comes to their handles; for virtual_thread.c: its
 * threads that wait for a condition. */
void **sim_loops(struct sim_process *p);
void **sim_waiters(struct sim_process *p);
void sim_signal_hook(void (*deliver)(struct sim_process *p, int number));

#endif
