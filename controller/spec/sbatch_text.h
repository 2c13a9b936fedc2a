/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch_text.h - checks texts of a spec for use in a #SBATCH line */
#ifndef CONTROLLER_SPEC_SBATCH_TEXT_H
#define CONTROLLER_SPEC_SBATCH_TEXT_H

struct err;

/* Accepts letters, digits and the punctuation of names and node lists; else ERR_USAGE. */
int sbatch_text_check(const char *text, struct err *err);

/* Options allowed in `slurm.extra`, without dashes; ends with NULL. */
const char *const *sbatch_text_extras(void);

#endif
