/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_slurm.h - checks of a Slurm job that are possible on the submitting machine */
#ifndef CONTROLLER_CHECKS_DOCTOR_SLURM_H
#define CONTROLLER_CHECKS_DOCTOR_SLURM_H

#include <jansson.h>

struct err;

/* here: the rows of this machine (agent/doctor/doctor.h); those that also hold for the compute
 * nodes are kept. Adds rows about Slurm's partitions and nodes. Returns rows in the same form, a
 * new object; NULL: out of memory. */
json_t *doctor_slurm(const json_t *here, const json_t *spec, struct err *err);

#endif
