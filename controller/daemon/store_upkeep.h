/* SPDX-License-Identifier: Apache-2.0 */
/* store_upkeep.h - keeps the store small, a portion at a time
 *
 * Returns unused pages to the file system (store_shrink()). A portion is half a megabyte, some milliseconds of the loop
 * and one commit; while there is more, one follows each tenth of a second. While the store is written often, pages are
 * moved rarely (db/shrink_pace.h).
 */
#ifndef CONTROLLER_DAEMON_STORE_UPKEEP_H
#define CONTROLLER_DAEMON_STORE_UPKEEP_H

struct daemon;
struct err;

/* Call after replay_all(); store_upkeep_close() before the loop runs to its end. */
int store_upkeep_open(struct daemon *d, struct err *err);
void store_upkeep_close(struct daemon *d);

#endif
