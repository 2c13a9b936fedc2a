/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_slurm.h - what can be said of a job of Slurm where it is submitted, and what cannot */
#ifndef CONTROLLER_CLI_DOCTOR_SLURM_H
#define CONTROLLER_CLI_DOCTOR_SLURM_H

#include <jansson.h>

struct err;

/* here: the rows of this machine (agent/doctor/doctor.h), of which those count that are true of the
 * compute nodes as well. Slurm is asked which nodes it has. Rows as there, a new object; NULL: no
 * memory. */
json_t *doctor_slurm(const json_t *here, const json_t *spec, struct err *err);

#endif
