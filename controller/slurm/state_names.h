/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state_names.h - names of Slurm's states and reasons
 *
 * libslurm has functions for this, but no installed header declares them; hence
 * these tables.
 */
#ifndef CONTROLLER_SLURM_STATE_NAMES_H
#define CONTROLLER_SLURM_STATE_NAMES_H

#include <stddef.h>
#include <stdint.h>

/* "PENDING", "RUNNING", ..., as in squeue. */
const char *state_names_state(uint32_t job_state);

/* The phase: "pending", "running", "ending" (processes may still live) or "ended". */
const char *state_names_phase(uint32_t job_state);

/* Why a job waits or failed: Slurm's word and, for cryptic ones, its meaning. */
void state_names_reason(char *out, size_t size, uint32_t reason, const char *detail);

/* "idle", "allocated", "down", ..., with "*" if the node does not answer. */
void state_names_node(char *out, size_t size, uint32_t node_state);

#endif
