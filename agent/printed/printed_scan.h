/* SPDX-License-Identifier: Apache-2.0 */
/* printed_scan.h - the numbers in a line, each with the words before it and their meaning
 *
 * Pure: no clock, no I/O.
 * "Epoch: [0][ 10/782]  loss/train 6.02 (6.37)  lr=[1e-4]" has the items epoch 0, (nothing) 10 of 782, loss train 6.02,
 * (nothing) 6.37 and lr 1e-4.  Names of files and dates are left out.
 */
#ifndef AGENT_PRINTED_PRINTED_SCAN_H
#define AGENT_PRINTED_PRINTED_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#include "agent/printed/printed_progress.h"

enum { PRINTED_WORDS = 96, PRINTED_ITEMS = 96 };

enum printed_note {
    NOTE_NONE,
    NOTE_MS,       /* the number is in milliseconds */
    NOTE_OF_EPOCH, /* the counter starts again with each epoch */
    NOTE_TRAIN,    /* "Train: 0 [ 50/10009 ( 0%)]": an epoch only before a counter */
    NOTE_ONE_WORD  /* "total_timesteps" is the number done, "total timesteps" a sum over environments */
};

/* Names of a number: the last words before it. */
struct printed_name {
    enum printed_field field;
    int rank;             /* if a line has several numbers for one field, the highest priority wins */
    const char *before;   /* words that may precede the name; NULL: any */
    const char *words;    /* "global step,global steps" */
    enum printed_count counts;
    enum printed_note  note;
};

struct printed_item {
    char   words[PRINTED_WORDS]; /* lower case, separated by one blank; "" = none. Only the last words of a long name */
    const struct printed_name *name; /* their meaning; NULL: not recognized */
    struct printed_unit unit;
    double value, of;            /* of: the total in "a/b"; NAN = none */
    double seconds;              /* for a duration; NAN = none */
    bool   after_bracket;        /* directly after a '[' */
    bool   negative;             /* the words, or the text before them in the line, indicate an evaluation */
    bool   busy;                 /* ... or loading, downloading, caching and so on */
};

struct printed_scan {
    struct printed_item items[PRINTED_ITEMS];
    size_t count;
    bool negative, busy;      /* such words without a number after them */
    char last[PRINTED_WORDS]; /* words after the last number */
};

/* Scans text[0, n).  Numbers beyond the capacity are left out. */
void printed_scan(struct printed_scan *out, const char *text, size_t n);

/* Reads the total of a counter at `p`, "/ 282", "// 1877", "/?": its end or NULL; does not change `*of` if the total
 * is unknown. */
const char *printed_scan_total(const char *p, double *of);

/* Does `words` end with the words `end`? Are all of its words, or is one, in the list "a b c"? */
bool printed_scan_ends(const char *words, const char *end);
bool printed_scan_within(const char *words, size_t n, const char *list);
bool printed_scan_has(const char *words, const char *list);

#endif
