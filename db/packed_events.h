/* SPDX-License-Identifier: Apache-2.0 */
/* packed_events.h - the events of finished jobs in few compressed rows: a twelfth of the bytes
 *
 * Readers do not see the difference: events_each() reads both.  A chunk's events are deleted only after its packed
 * row was read back and compared; those of a job with a damaged event stay as they are.
 */
#ifndef DB_PACKED_EVENTS_H
#define DB_PACKED_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct store;

/* Maximum number of events in a row. */
enum { PACKED_EVENTS_CHUNK = 256 };

/* Packs, in one transaction, events of jobs that ended before `ended_before_ms`, oldest first, until it has done `work`
 * units: one per event, ten per job. *left: more jobs may be ready. */
int packed_events_some(bool *left, struct store *s, int64_t ended_before_ms, int work, struct err *err);

#endif
