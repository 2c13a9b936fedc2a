/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_notify.h - the doctor's row about the targets of messages: who is told about jobs, and who cannot be reached */
#ifndef CONTROLLER_CHECKS_DOCTOR_NOTIFY_H
#define CONTROLLER_CHECKS_DOCTOR_NOTIFY_H

#include <jansson.h>

struct err;

/* Adds the row to the answer of a doctor, {rows, fail, warn}; none where no daemon runs, which alone knows what was
 * delivered, and none where config.yaml has no targets. */
int doctor_notify_add(json_t *answer, struct err *err);

#endif
