/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch_text.h - texts of a spec that may stand in a #SBATCH line */
#ifndef CONTROLLER_SPEC_SBATCH_TEXT_H
#define CONTROLLER_SPEC_SBATCH_TEXT_H

struct err;

/* Letters, digits and what names and lists of nodes need; ERR_USAGE for anything else. */
int sbatch_text_check(const char *text, struct err *err);

/* Options that `slurm.extra` may have, without the dashes, ended by NULL. */
const char *const *sbatch_text_extras(void);

#endif
