/* SPDX-License-Identifier: Apache-2.0 */
/* printed_scan.h - the numbers of a line, each with the words that name it
 *
 * Pure: no clock, no I/O.
 * "Epoch: [0][ 10/782]  loss/train 6.02 (6.37)  lr=[1e-4]" has the items epoch 0, (nothing) 10 of 782, loss train 6.02,
 * (nothing) 6.37 and lr 1e-4.  Names of files and dates are left out.
 */
#ifndef AGENT_PRINTED_PRINTED_SCAN_H
#define AGENT_PRINTED_PRINTED_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/printed/printed_unit.h"

enum { PRINTED_WORDS = 96, PRINTED_ITEMS = 96 };

struct printed_item {
    char   words[PRINTED_WORDS]; /* lower case, one blank between them; "" = none.  The last ones of a long name */
    size_t own;                  /* where the words begin that stand in one name with the last: "train/loss_step" */
    size_t clause;               /* ... where those begin that stand behind the last ':' before the number's own */
    char   unit[PRINTED_UNIT_SIZE]; /* "ms", "it/s"; "" = none */
    double value, of;            /* of: the total of "a/b"; NAN = none */
    double seconds;              /* of a duration; NAN = none */
    bool   whole;
    bool   after_bracket;        /* directly behind a '[' */
    bool   negative;             /* the words, or the text before them in the line, name an evaluation */
    bool   busy;                 /* ... of loading, downloading, caching and so on */
};

struct printed_scan {
    struct printed_item items[PRINTED_ITEMS];
    size_t count;
    bool negative, busy;      /* words of that kind that name no number */
    char last[PRINTED_WORDS]; /* words behind the last number */
};

/* Scans text[0, n).  Numbers beyond the capacity are left out. */
void printed_scan(struct printed_scan *out, const char *text, size_t n);

/* Whether `words` ends with the words `end`, and if so, where they begin. */
bool printed_scan_ends(const char *words, const char *end, size_t *at);
/* Whether each of the words words[0, n) is in `allowed` ("a b c"). */
bool printed_scan_within(const char *words, size_t n, const char *allowed);
bool printed_scan_has(const char *words, const char *list); /* one of the list */

#endif
