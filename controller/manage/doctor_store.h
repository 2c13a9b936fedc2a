/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_store.h - the store of this home: its row in the doctor's report, and its repair */
#ifndef CONTROLLER_MANAGE_DOCTOR_STORE_H
#define CONTROLLER_MANAGE_DOCTOR_STORE_H

#include <jansson.h>

struct call;
struct err;

/* Adds the row to the answer of a doctor, {rows, fail, warn}; none where there is no store yet. */
int doctor_store_add(json_t *answer, struct err *err);

/* Stops the daemon, rebuilds the store (controller/daemon/repair.h), starts the daemon, prints what was done. */
int doctor_store_repair(struct call *call);

#endif
