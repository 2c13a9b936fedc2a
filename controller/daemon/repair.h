/* SPDX-License-Identifier: Apache-2.0 */
/* repair.h - rebuilds the store from the old store, its snapshots, and the directories of the jobs
 *
 * The base is the present store if it is undamaged. Jobs that it lacks come from the newest undamaged snapshot. Then
 * each job whose directory has more events than its rows, or whose rows are damaged, is written again from
 * jobs/<id>/events.jsonl.  The new store replaces the old one, which is kept beside it, at the very end; on
 * failure nothing has changed.  Needs a home without a daemon; agents and ranks continue meanwhile.
 */
#ifndef CONTROLLER_DAEMON_REPAIR_H
#define CONTROLLER_DAEMON_REPAIR_H

#include <jansson.h>

struct err;

/* Takes the home's lock (ERR_CONFLICT: a daemon runs). *report: {store, snapshot, from_snapshot, rebuilt, advanced,
 * ended, jobs, old, left}: texts, numbers of jobs, and survey_json() of the new store. */
int repair_run(json_t **report, const char *home, struct err *err);

/* The report of `jobctl doctor` on the store of a home without a daemon: as survey_json(); {text, damaged: true} of a
 * damaged one; null where there is none. */
json_t *repair_look(const char *home, struct err *err);

#endif
