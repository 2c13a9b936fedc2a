/* SPDX-License-Identifier: Apache-2.0 */
/* far_answer.h - removes terminal commands from a far host's answers
 *
 * Pure: no clock, no I/O.
 * The daemon of another machine is not trusted. Control characters in its texts become '?', except line feed and tab;
 * texts below "data" (a job's output, the login's environment) and "spec" stay: the user asked for output, and the
 * others are only printed as JSON.
 */
#ifndef CONTROLLER_BASE_FAR_ANSWER_H
#define CONTROLLER_BASE_FAR_ANSWER_H

#include <jansson.h>

/* Works in place. */
void far_answer_clean(json_t *answer);

#endif
