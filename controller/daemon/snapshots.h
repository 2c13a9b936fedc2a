/* SPDX-License-Identifier: Apache-2.0 */
/* snapshots.h - copies of the store: HOME/snapshots/jobs-2026-11-22.db, one a day, of which the newest three are kept
 *
 * A day's copy is made at the first start or hourly check of the day, and again at each clean stop if the store has at
 * most 64 MB. A thread of libuv's pool makes it through a separate connection, so the daemon continues meanwhile.
 * Without a write-ahead log (on a file system that machines share) a reader would block the writer: the copy is made before
 * the daemon serves. The store is checked completely when it is copied, and the copy when it is put back.
 */
#ifndef CONTROLLER_DAEMON_SNAPSHOTS_H
#define CONTROLLER_DAEMON_SNAPSHOTS_H

#include <stdbool.h>
#include <stddef.h>

struct daemon;
struct daemon_store_state;
struct err;

/* Call after replay_all(); snapshots_close() before the loop runs to its end. */
int snapshots_open(struct daemon *d, struct err *err);
void snapshots_close(struct daemon *d);

/* Call once the store is closed. */
void snapshots_at_stop(const struct daemon *d);

/* Moves a lost or damaged store aside and puts the newest sound copy in its place, if there is one. */
int snapshots_restore(struct daemon_store_state *state, const char *home, struct err *err);

#endif
