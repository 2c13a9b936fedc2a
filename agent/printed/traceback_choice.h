/* SPDX-License-Identifier: Apache-2.0 */
/* traceback_choice.h - which of the tracebacks of an output ended the program
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_TRACEBACK_CHOICE_H
#define AGENT_PRINTED_TRACEBACK_CHOICE_H

#include "agent/printed/traceback.h"

/* A chain of tracebacks: how the first came to the last. */
struct traceback_choice {
    const struct traceback *last; /* the one that ended the program; NULL: there is no traceback */
    const struct traceback *root; /* the one that began it: the same, where there is no chain */
    enum traceback_link link;     /* how they belong together */
    bool weak;                    /* it only reports that something else failed, or an interruption */
};

void traceback_choice_make(struct traceback_choice *out, const struct traceback *all, int n, const char *text);

#endif
