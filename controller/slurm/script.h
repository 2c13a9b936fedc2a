/* SPDX-License-Identifier: GPL-2.0-or-later */
/* script.h - a batch script's #SBATCH lines as the request that libslurm takes
 *
 * sbatch reads these lines, libslurm does not.  So that what `jobctl render`
 * shows is what is submitted, whoever submits it, the script is the only
 * source: each line becomes a field here, and one that is not known is an
 * error, never ignored.
 */
#ifndef CONTROLLER_SLURM_SCRIPT_H
#define CONTROLLER_SLURM_SCRIPT_H

struct err;
struct job_descriptor;

/* Fills *job, whose texts point into *copy, which the caller frees after use. */
int script_read(struct job_descriptor *job, char **copy, const char *script, struct err *err);

#endif
