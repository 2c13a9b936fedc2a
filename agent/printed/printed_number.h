/* SPDX-License-Identifier: Apache-2.0 */
/* printed_number.h - numbers, durations, dates and units as programs print them
 *
 * Pure: no clock, no I/O.
 * Each reader returns the end of what it read, or NULL if `p` does not begin with the expected form.
 */
#ifndef AGENT_PRINTED_PRINTED_NUMBER_H
#define AGENT_PRINTED_PRINTED_NUMBER_H

#include <stdbool.h>

enum printed_count { COUNT_STEPS, COUNT_EPOCHS, COUNT_SAMPLES, COUNT_TOKENS, COUNT_OTHER };
enum printed_unit_kind { UNIT_NONE, UNIT_SECONDS, UNIT_SECONDS_EACH, UNIT_PER_SECOND, UNIT_BYTES, UNIT_OTHER };

struct printed_unit {
    enum printed_unit_kind kind;
    enum printed_count     counts; /* for UNIT_SECONDS_EACH and UNIT_PER_SECOND: the thing counted */
    double                 scale;  /* factor to seconds, or to a rate per second */
};

/* 12  -0.5  1e-05  1,200 (thousands)  0,3421 (a decimal comma)  12.5k  1.62M  nan  inf.  A suffix counts only where no
 * letter follows. */
const char *printed_number_read(const char *p, double *value);

/* 1:30:23  46:13  2 days, 13:50:02  3h12m  1m 51s  9 s, 96.299 ms  2 h, 31 m, 38 s  15.6s  0us, in seconds */
const char *printed_duration_read(const char *p, double *seconds);

/* 2024-11-05T09:13:22.48Z  12/26/2024 02:11:11  08/12 16:13:47 */
const char *printed_date_read(const char *p);

/* ms s/it it/s Mtok/s MiB/s %, after blanks, not followed by a letter */
const char *printed_unit_read(const char *p, struct printed_unit *unit);

#endif
