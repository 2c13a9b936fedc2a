/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_refusal.h - why Slurm refuses a job, permanently or for now, as a message
 *
 * Pure: no clock, no I/O.
 * Uses Slurm's error numbers, which are part of its protocol and thus the same in all releases.
 */
#ifndef CONTROLLER_REMOTE_SLURM_REFUSAL_H
#define CONTROLLER_REMOTE_SLURM_REFUSAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* May the same submission succeed later? */
bool slurm_refusal_passes(int number);

/* "slurm.partition: gpu does not exist; partitions: main, low". answer: jobctl-slurm's to a submit, {error, number,
 * partitions}; spec: canonical. */
void slurm_refusal_text(char *out, size_t size, const json_t *answer, const json_t *spec);

#endif
