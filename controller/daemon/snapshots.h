/* SPDX-License-Identifier: Apache-2.0 */
/* snapshots.h - a copy of the store each day, in HOME/snapshots/jobs-2026-11-22.db; the newest three are kept
 *
 * Made from a connection of its own on libuv's pool, so the daemon continues meanwhile; where the store has no
 * write-ahead log (on a file system that machines share) a reader would stop the writer, so there it is made before
 * the daemon serves. Events that the directories of done jobs lack (job_history.h) are written from the copy. The store
 * is checked completely as it is copied. While rows and directories differ (survey.h) no copy is made, because it would
 * replace a better one.
 */
#ifndef CONTROLLER_DAEMON_SNAPSHOTS_H
#define CONTROLLER_DAEMON_SNAPSHOTS_H

#include <limits.h>
#include <stdbool.h>

struct daemon;
struct err;

enum { SNAPSHOT_NAME = 24, SNAPSHOTS_KEPT = 3 };

/* After replay.h. snapshots_close(): before the loop runs to its end. */
int snapshots_open(struct daemon *d, struct err *err);
void snapshots_close(struct daemon *d);

/* The name of the newest one (age 0), the one before (1), ...; false: there is none. */
bool snapshots_name(char out[SNAPSHOT_NAME], const char *home, int age);
void snapshots_path(char out[PATH_MAX], const char *home, const char *name);

#endif
