/* SPDX-License-Identifier: Apache-2.0 */
/* spool.h - on-disk queue of events until the controller has acknowledged them
 *
 * One preallocated file in the run directory: a header, then records
 *
 *   u32 length, u32 check, u64 seq, the event as JSON, zeros up to 8 bytes
 *
 * with ascending seq, ended by a zero length. A record whose check fails ends the file: a crash tore it, and it was
 * never reported as stored. Acknowledged records are overwritten once all are acknowledged, or dropped when the file is
 * full and rewritten (to a temporary file, then renamed). So the file may contain acknowledged events too; a reader
 * asks for those after a seq.
 *
 * Droppable events (steps) are thinned before they get a seq, so seq has no gaps: when the file is
 * a quarter full every 10th is kept, from a half every 60th, from three quarters none. Other events
 * are never dropped; the file grows.
 */
#ifndef AGENT_ATTEMPT_SPOOL_H
#define AGENT_ATTEMPT_SPOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct spool;

enum { SPOOL_BYTES = 4 * 1024 * 1024, SPOOL_HELD = 10000 };

/* Opens or creates the file; `bytes` is the size of a new one. Existing records are kept. */
int spool_open(struct spool **out, const char *path, size_t bytes, struct err *err);
/* Closes it; a file with only acknowledged events shrinks to its header. */
void spool_close(struct spool *s);

/* Sets the event's "seq" and stores it: 0; 1: thinned out, not stored; -1: error. An event that its disk refused
 * is held in memory, where spool_next() finds it, and is written before the next one, or by spool_sync(). */
int spool_append(struct spool *s, json_t *event, bool droppable, struct err *err);

/* Syncs: everything appended is on disk when it returns 0. */
int spool_sync(struct spool *s, struct err *err);

/* The controller has acknowledged everything up to seq. */
void spool_ack(struct spool *s, int64_t seq);

/* Number of events that the disk refused and memory holds: at most SPOOL_HELD, further ones are lost. */
size_t spool_held(const struct spool *s);

int64_t spool_acked(const struct spool *s);
int64_t spool_last(const struct spool *s); /* seq of the newest event, 0 = none ever */

/* The first event after `seq`: 0 and *event (owned by the caller), NULL if there is none. */
int spool_next(struct spool *s, int64_t seq, json_t **event, struct err *err);

/* Reads the spool of an agent that may be dead: passes every complete event after `seq`, in
 * order, to `each` until it returns non-zero. Returns how many, -1 if there is no readable
 * spool. */
int spool_read(const char *path, int64_t seq, int (*each)(void *arg, const json_t *event), void *arg, struct err *err);

#endif
