/* SPDX-License-Identifier: Apache-2.0 */
/* next_id.h - HOME/next-id: an id above those of all removed jobs, because a lost store leaves no other trace of
 * them */
#ifndef CONTROLLER_LIFECYCLE_NEXT_ID_H
#define CONTROLLER_LIFECYCLE_NEXT_ID_H

#include <stdint.h>

struct err;

/* 1: there is no such file. */
int64_t next_id_read(const char *home);

/* Writes it, if it is larger than the file's. Called before a job is removed. */
int next_id_keep(const char *home, int64_t id, struct err *err);

#endif
