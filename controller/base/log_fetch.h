/* SPDX-License-Identifier: Apache-2.0 */
/* log_fetch.h - fetches the output of a rank piece by piece */
#ifndef CONTROLLER_BASE_LOG_FETCH_H
#define CONTROLLER_BASE_LOG_FETCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct client;
struct err;

struct log_fetch {
    long long id, attempt, offset;  /* attempt 0: the newest; set by the first answer */
    int       rank;
    bool      setup;                /* the setup's output, not a rank's */
    bool      done;                 /* no more output will follow */
    bool      mid_line;             /* the last byte printed was not a line feed */
    bool      labelled;             /* print complete lines only, each with its rank */
    char      until[48];            /* text before which to stop; "": none */
    char     *held; /* an incomplete line; NULL: none. log_fetch_fini() frees it */
    size_t    nheld;
    void    (*before)(void *user);  /* called before bytes are printed; may be NULL */
    void     *user;
};

/* Prints the output from the offset on. Returns the number of bytes, or -1. An attempt without
 * output yields 0. */
long long log_fetch_print(struct log_fetch *r, struct client *c, FILE *to, struct err *err);

/* Prints an incomplete last line. */
void log_fetch_fini(struct log_fetch *r, FILE *to);

/* Sets the offset to the last `lines` lines. */
int log_fetch_tail(struct log_fetch *r, struct client *c, long long lines, struct err *err);

#endif
