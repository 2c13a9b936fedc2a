/* SPDX-License-Identifier: Apache-2.0 */
/* drill.h - injects a fault into a running job and measures its recovery
 *
 * Works from outside, like a real fault: signals, bytes of a file, a resource limit. Each target is
 * first verified to belong to the job. Works only on the job's machine.
 */
#ifndef CONTROLLER_MANAGE_DRILL_H
#define CONTROLLER_MANAGE_DRILL_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct client;
struct err;

struct drill {
    struct client *client;      /* reopened after the daemon was killed */
    int64_t        job;
    char           dir[PATH_MAX];
    bool           engine;      /* the job trains with the built-in engine, whose steps and checkpoints are known */
    double         limit_s;     /* time allowed for recovery */
    const volatile int *stop;   /* set by Ctrl-C: drill_run() fails then */
};

/* The outcome of one fault; times in seconds since the fault, -1: never. */
struct drill_outcome {
    double  noticed, back;
    int64_t lost;               /* steps that had to be repeated, -1: not known */
    bool    skipped, passed;
    char    text[200];          /* what happened, or why it was skipped or failed */
};

struct drill_fault;

/* A fault by its number from 0 (NULL after the last), or by its name. */
const struct drill_fault *drill_fault_at(int n);
const struct drill_fault *drill_fault_find(const char *name, int len);
const char *drill_fault_name(const struct drill_fault *fault);
const char *drill_fault_text(const struct drill_fault *fault);      /* "a rank is killed" */

/* Waits until the job trains and has a checkpoint, injects the fault, and waits for recovery or the
 * time limit. -1: the drill itself failed. */
int drill_run(struct drill_outcome *out, struct drill *d, const struct drill_fault *fault, struct err *err);

#endif
