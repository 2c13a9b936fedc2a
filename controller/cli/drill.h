/* SPDX-License-Identifier: Apache-2.0 */
/* drill.h - do harm to a running job on purpose, and measure how it comes back
 *
 * Works from outside, as a fault does: signals, bytes of a file, a limit of a process. What is hit
 * is proven to be of that job first. On the machine of the job only.
 */
#ifndef CONTROLLER_CLI_DRILL_H
#define CONTROLLER_CLI_DRILL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct client;
struct err;

struct drill {
    struct client *client;      /* opened anew when the daemon was killed */
    int64_t        job;
    char           dir[PATH_MAX];
    double         limit_s;     /* to be back at work */
    const volatile int *stop;   /* set by Ctrl-C: drill_run() fails then */
};

/* What came of one fault; times in seconds since it, -1: never. */
struct drill_outcome {
    double  noticed, back;
    int64_t lost;               /* steps that had to be made again */
    bool    skipped, passed;
    char    text[200];          /* what happened, or why it was skipped or failed */
};

struct drill_fault;

/* By its number from 0, NULL after the last; by its name. */
const struct drill_fault *drill_fault_at(int n);
const struct drill_fault *drill_fault_find(const char *name, int len);
const char *drill_fault_name(const struct drill_fault *fault);
const char *drill_fault_text(const struct drill_fault *fault);      /* "a rank is killed" */

/* Waits until the job is at work and has a checkpoint, strikes, and looks until it is at work again
 * or time is up. -1: the drill itself cannot go on. */
int drill_run(struct drill_outcome *out, struct drill *d, const struct drill_fault *fault,
              struct err *err);

#endif
