/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_store.h - the store of this home in the doctor's report: what the daemon found lost at its start */
#ifndef CONTROLLER_MANAGE_DOCTOR_STORE_H
#define CONTROLLER_MANAGE_DOCTOR_STORE_H

#include <jansson.h>

struct err;

/* Adds the row to the answer of a doctor, {rows, fail, warn}; none where no daemon runs. */
int doctor_store_add(json_t *answer, struct err *err);

#endif
