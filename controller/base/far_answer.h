/* SPDX-License-Identifier: Apache-2.0 */
/* far_answer.h - answers of a far host without terminal commands
 *
 * Pure: no clock, no I/O.
 * The daemon of another machine is not trusted. Control characters in its texts become '?', except line feed and tab;
 * texts below "data" (the output of a job, the environment of the login) and "spec" stay: the user asked for the first,
 * and the others are printed as JSON only.
 */
#ifndef CONTROLLER_BASE_FAR_ANSWER_H
#define CONTROLLER_BASE_FAR_ANSWER_H

#include <jansson.h>

/* In place. */
void far_answer_clean(json_t *answer);

#endif
