/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_notify.h - the doctor's row about notification targets: which are configured, which cannot be reached */
#ifndef CONTROLLER_CHECKS_DOCTOR_NOTIFY_H
#define CONTROLLER_CHECKS_DOCTOR_NOTIFY_H

#include <jansson.h>

struct err;

/* Adds the row to the answer of a doctor, {rows, fail, warn}; no row if no daemon runs (only the daemon knows what was
 * delivered) or if config.yaml has no targets. */
int doctor_notify_add(json_t *answer, struct err *err);

#endif
