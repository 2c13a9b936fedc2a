/* SPDX-License-Identifier: Apache-2.0 */
/* success_note.h - what exit code 0 of a command may hide
 *
 * Pure: no clock, no I/O.
 * The code may be that of `tee`, of an `echo` at the end or of a launcher, and `&` does not wait. So a success is noted
 * as doubtful if the output ends with a traceback, if at most half of the steps were reported, or if the command left
 * programs in the background, which end with it.
 */
#ifndef AGENT_CORE_SUCCESS_NOTE_H
#define AGENT_CORE_SUCCESS_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent_exit;

enum { SUCCESS_NOTE = 520 };

/* Zeroed: nothing is hidden. */
struct success_note {
    char trouble[SUCCESS_NOTE]; /* "the output of rank 0 ends with train.py:5: KeyError: 'depth'" */
    bool background;            /* the command has a `&` */
};

/* A rank has ended with code 0. */
void success_note_exit(struct success_note *n, const struct agent_exit *e);

/* "every rank exited with code 0; but ..."; step, steps: -1 = not known; left: programs that were still running and
 * were ended, "" = none. */
void success_note_say(char *out, size_t size, const struct success_note *n, int64_t step, int64_t steps,
                      const char *left);

#endif
