/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_refusal.h - why Slurm does not take a job: for good, or for now, and in which words
 *
 * Pure: no clock, no I/O.
 * By the numbers of Slurm's errors, which are part of its protocol and so the same in each release.
 */
#ifndef CONTROLLER_REMOTE_SLURM_REFUSAL_H
#define CONTROLLER_REMOTE_SLURM_REFUSAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* May the same submission succeed later? */
bool slurm_refusal_passes(int number);

/* "slurm.partition: gpu does not exist; partitions: main, low". answer: of jobctl-slurm to a submit, {error, number,
 * partitions}; spec: canonical. */
void slurm_refusal_text(char *out, size_t size, const json_t *answer, const json_t *spec);

#endif
