/* SPDX-License-Identifier: Apache-2.0 */
/* printed_words.h - the words that name the numbers of training programs
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_PRINTED_WORDS_H
#define AGENT_PRINTED_PRINTED_WORDS_H

#include "agent/printed/printed_progress.h"
#include "agent/printed/printed_scan.h"

struct printed_name {
    const char *words; /* the last words of the name */
    enum printed_field field;
    int rank;             /* of several numbers of a line for one field, the highest counts */
    const char *before;   /* words that may stand before them; NULL: any */
    enum printed_count counts;
};

/* What the number is, by its name; NULL: nothing that we know. */
const struct printed_name *printed_name_of(const struct printed_item *item);

#endif
