/* SPDX-License-Identifier: Apache-2.0 */
/* copy_removal.h - removes copies of a removed job's code from hosts of launch: ssh
 *
 * Each copy is a row of the store (db/host_copies.h) before the job's rows are deleted; the host is asked until it has
 * removed the copy, if necessary by later controllers.
 */
#ifndef CONTROLLER_NODES_COPY_REMOVAL_H
#define CONTROLLER_NODES_COPY_REMOVAL_H

#include <stdint.h>

struct daemon;
struct err;

/* Call before the job's rows are deleted: records the hosts that have a copy. */
int copy_removal_record(struct daemon *d, int64_t job, struct err *err);

/* Call after that. */
void copy_removal_begin(struct daemon *d, int64_t job);

/* Continues with the copies that earlier controllers recorded. */
int copy_removal_open(struct daemon *d, struct err *err);
void copy_removal_close(struct daemon *d);

#endif
