/* SPDX-License-Identifier: Apache-2.0 */
/* next_id.h - HOME/next-id: an id above those of all removed jobs, of which a lost store leaves no other trace */
#ifndef CONTROLLER_DAEMON_NEXT_ID_H
#define CONTROLLER_DAEMON_NEXT_ID_H

#include <stdint.h>

struct daemon;
struct err;

/* 1: there is no such file. */
int64_t next_id_read(const char *home);

/* Writes d->next_id, if that is more than the file has. Called before a job is removed. */
int next_id_keep(const struct daemon *d, struct err *err);

#endif
