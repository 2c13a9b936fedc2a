/* SPDX-License-Identifier: Apache-2.0 */
/* origin.h - gives jobs their origin, 128 random bits: new ones, and those of versions that had none */
#ifndef CONTROLLER_DAEMON_ORIGIN_H
#define CONTROLLER_DAEMON_ORIGIN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct daemon;
struct err;

/* Adds it to the `checkpoint` of a spec, unless it has one: `retry` and `adopt` keep it. Checkpoints and mirrors
 * carry it (engine/checkpoint/lineage.h). */
int origin_give(json_t *checkpoint, struct err *err);

/* The same for an unfinished job of an earlier version, in the store and in spec.json. Only where the two agree: else
 * the directory may be that of another job, which is logged.  Its checkpoints get it by a file beside them
 * (engine/checkpoint/lineage.h), which a thread writes. */
void origin_upgrade(struct daemon *d, int64_t id);

/* Done jobs of an earlier version, one after another; a thread looks at their files.  Takes the ids, malloc'd. */
void origin_upgrade_done(struct daemon *d, int64_t *ids, size_t count);

/* Is this the spec of a job of an earlier version? */
bool origin_absent(const char *canonical);

#endif
