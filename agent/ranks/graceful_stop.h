/* SPDX-License-Identifier: Apache-2.0 */
/* graceful_stop.h - stops a command: first its main programs, then the rest of its session
 *
 * A command such as `run: python train.py` has a shell above the program that saves. Main programs get the signal, and
 * shells that trap it; other shells end by themselves afterwards. Half a second later, the signal goes to the remaining
 * shells, which would continue with their next line, and to programs that have become main programs, such as a trainer
 * whose launcher has ended. This repeats until nothing is left. The caller sends SIGKILL when the grace period is over.
 */
#ifndef AGENT_RANKS_GRACEFUL_STOP_H
#define AGENT_RANKS_GRACEFUL_STOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { GRACEFUL_STOP_PROGRAMS = 64, GRACEFUL_STOP_LOOK_MS = 50 };

/* Zeroed: not begun. */
struct graceful_stop {
    pid_t   root;  /* pid of the rank, which leads its session and process group; 0: not begun */
    int     signo;
    bool    everybody; /* all processes were signalled at once */
    int     programs[GRACEFUL_STOP_PROGRAMS]; /* pidfds */
    int     n;
    int64_t ended_ms; /* when the signalled processes had ended; 0: not yet */
};

/* Signals the main programs; the whole process group if `everybody` is set, if there is no program, or if no pidfd can
 * be opened. */
void graceful_stop_begin(struct graceful_stop *s, pid_t root, int signo, bool everybody);
/* Call every GRACEFUL_STOP_LOOK_MS. Is a process of the session left, besides zombies? */
bool graceful_stop_look(struct graceful_stop *s, int64_t now_ms);
void graceful_stop_end(struct graceful_stop *s);

/* Only sends a signal to the main programs: a request for a checkpoint. Returns how many got it. */
int graceful_stop_signal_programs(pid_t root, int signo);

#endif
