/* SPDX-License-Identifier: GPL-2.0-or-later */
/* script.h - turns the #SBATCH lines of a batch script into a libslurm request
 *
 * sbatch reads these lines, libslurm does not.  The script is the only source, so
 * `jobctl render` shows exactly what is submitted: each line becomes a field, and
 * an unknown line is an error, never ignored.
 */
#ifndef CONTROLLER_SLURM_SCRIPT_H
#define CONTROLLER_SLURM_SCRIPT_H

struct err;
struct job_descriptor;

/* Fills *job, whose texts point into *copy, which the caller frees after use. */
int script_read(struct job_descriptor *job, char **copy, const char *script, struct err *err);

#endif
