/* SPDX-License-Identifier: Apache-2.0 */
/* local_check.h - checks that only the submitting machine can make: programs in PATH, names of hosts */
#ifndef CONTROLLER_SUBMIT_LOCAL_CHECK_H
#define CONTROLLER_SUBMIT_LOCAL_CHECK_H

#include <jansson.h>

struct call;

/* Checks the canonical spec of `request` (spec_file.h): the program of a local `run:` without setup is in our PATH;
 * the initial weights of a run on this machine or on Slurm fit its model (the engine reads their files); the names of
 * hosts resolve (within a few seconds). Models on a hub are looked up, and their commits are written into the spec
 * (hub_pin.h). Appends to `notes` what may be intended: hosts behind a jump host, a launcher inside several ranks. -1:
 * call->found lists the mistakes, call->err is the first.
 */
int local_check(struct call *call, const json_t *request, json_t *spec, json_t *notes);

/* Checks that a training run on this machine can fit into memory; the agent plans its GPUs. -1: as above. Runs
 * elsewhere are not checked. */
int local_check_memory(struct call *call, const json_t *request, const json_t *spec);

/* Adds a mistake in the key to call->found, with its place in the file. */
void local_check_refuse(struct call *call, const json_t *request, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Prints each on a line of stderr. */
void local_check_print_notes(const json_t *notes);

#endif
