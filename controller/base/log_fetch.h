/* SPDX-License-Identifier: Apache-2.0 */
/* log_fetch.h - the output of a rank, piece by piece */
#ifndef CONTROLLER_BASE_LOG_FETCH_H
#define CONTROLLER_BASE_LOG_FETCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

struct client;
struct err;

struct log_fetch {
    long long id, attempt, offset;  /* attempt 0: the newest, and then the one that answered */
    int       rank;
    bool      setup;                /* what the setup wrote, not a rank */
    bool      done;                 /* no more will come */
    bool      mid_line;             /* the last byte printed was not a line feed */
    bool      labelled;             /* each line begins with its rank, and is printed when it is whole */
    char     *held; /* of a line that is not; NULL: nothing. log_fetch_fini() frees it */
    size_t    nheld;
    void    (*before)(void *user);  /* called before bytes are printed; may be NULL */
    void     *user;
};

/* Print what there is from the offset on. Returns how many bytes, or -1. An attempt that has no
 * output yet is 0 bytes. */
long long log_fetch_print(struct log_fetch *r, struct client *c, FILE *to, struct err *err);

/* The last line, if it has no end. */
void log_fetch_fini(struct log_fetch *r, FILE *to);

/* Set the offset so that the last `lines` lines follow. */
int log_fetch_tail(struct log_fetch *r, struct client *c, long long lines, struct err *err);

#endif
