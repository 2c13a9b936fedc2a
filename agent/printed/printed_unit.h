/* SPDX-License-Identifier: Apache-2.0 */
/* printed_unit.h - units of speeds and durations as programs print them
 *
 * Pure: no clock, no I/O.
 */
#ifndef AGENT_PRINTED_PRINTED_UNIT_H
#define AGENT_PRINTED_PRINTED_UNIT_H

#include <stdbool.h>
#include <stddef.h>

enum printed_count { COUNT_STEPS, COUNT_EPOCHS, COUNT_SAMPLES, COUNT_TOKENS, COUNT_OTHER };
enum printed_unit_kind { UNIT_NONE, UNIT_SECONDS, UNIT_SECONDS_EACH, UNIT_PER_SECOND, UNIT_BYTES, UNIT_OTHER };

struct printed_unit {
    enum printed_unit_kind kind;
    enum printed_count     counts; /* of UNIT_SECONDS_EACH and UNIT_PER_SECOND: what */
    double                 scale;  /* to seconds, or to one a second */
};

enum { PRINTED_UNIT_SIZE = 16 }; /* with its end */

/* The length of the unit at `p`, with no letter behind it, or 0. */
size_t printed_unit_length(const char *p);
struct printed_unit printed_unit_of(const char *text); /* UNIT_NONE: "", UNIT_OTHER: not known */

#endif
