/* SPDX-License-Identifier: Apache-2.0 */
/* spec_after.h - entries of `after`: 7 or prep (must succeed), afterany:7 (must end), afternotok:prep (must fail)
 *
 * Pure: no clock, no I/O.
 */
#ifndef CONTROLLER_SPEC_SPEC_AFTER_H
#define CONTROLLER_SPEC_SPEC_AFTER_H

#include <stdbool.h>

/* What the other job must have done. A cancelled job did not succeed. */
enum spec_after { AFTER_OK, AFTER_ANY, AFTER_NOTOK };

/* The kind of an entry; *job points at its id or name in `text`. */
enum spec_after spec_after_parse(const char **job, const char *text);

/* "afterany", ... */
const char *spec_after_name(enum spec_after kind);

/* Does a job that is done satisfy it? */
bool spec_after_met(enum spec_after kind, bool succeeded);

#endif
