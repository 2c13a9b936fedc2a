/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state_names.h - states and reasons of Slurm as words
 *
 * libslurm has such functions, but no installed header declares them: what is
 * told to people is told by tables of our own.
 */
#ifndef CONTROLLER_SLURM_STATE_NAMES_H
#define CONTROLLER_SLURM_STATE_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* "PENDING", "RUNNING", ..., as squeue names them. */
const char *state_names_state(uint32_t job_state);

/* Where it is: "pending", "running", "ending" (its processes may still live) or "ended". */
const char *state_names_phase(uint32_t job_state);

/* Why it waits or failed: Slurm's own word and, where one is needed, what it means. */
void state_names_reason(char *out, size_t size, uint32_t reason, const char *detail);

/* "idle", "allocated", "down", ..., with "*" where the node does not answer. */
void state_names_node(char *out, size_t size, uint32_t node_state);

#endif
