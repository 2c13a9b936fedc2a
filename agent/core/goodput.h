/* SPDX-License-Identifier: Apache-2.0 */
/* goodput.h - where the time of ranks went: buckets that always add up
 *
 * Pure: no clock, no I/O.
 * Every second of a rank is in exactly one bucket, so the buckets of a generation sum to its wall
 * time times its ranks, and those of a job to its whole life. A step is productive when it runs for the first time;
 * repeating it, or dying in the middle of it, is `replayed`.
 */
#ifndef AGENT_CORE_GOODPUT_H
#define AGENT_CORE_GOODPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* The one list of buckets; a name is a key in messages and in JSON, and a column of the store. */
#define GOODPUT_BUCKETS(X)                                                                \
    X(PRODUCTIVE, productive)                                                             \
    X(REPLAYED, replayed)     /* work that was lost, or repeated after a loss */          \
    X(INIT, init)             /* agent start, setup, and ranks until their first batch */ \
    X(DATA, data)             /* waiting for samples, or encoding them before step 1 */   \
    X(CHECKPOINT, checkpoint)                                                             \
    X(DISK, disk)             /* waiting for space on the disk of the checkpoints */       \
    X(HANG, hang)             /* from the last progress until the hang was detected */    \
    X(RESTART, restart)       /* from a failure to the start of the next ranks, including back-off */  \
    X(QUEUED, queued)                                                                     \
    X(PAUSED, paused)         /* held by a user */

#define GOODPUT_BUCKET(id, name) BUCKET_##id,
enum bucket { GOODPUT_BUCKETS(GOODPUT_BUCKET) BUCKETS };

struct goodput {
    int64_t rank_ms;        /* wall time x ranks: the sum of the buckets */
    int64_t ms[BUCKETS];
};

/* Times of one generation, in ms since its ranks started; -1: never. */
struct spell {
    int64_t wall;           /* until it ended */
    int64_t started;        /* first "started" line of a rank; -1: none, as in scripts whose progress is read from
                             * output */
    int64_t fresh;          /* from here on its steps were new; 0: from the start */
    int64_t last;           /* the last step, or checkpoint */
    int64_t failed;         /* when the failure was detected; -1: it ended well or on request */
    bool    hung;
    int64_t disk_ms;        /* total of finished waits for a full disk ... */
    int64_t disk_since;     /* ... and the start of one in progress; -1: none */
};

/* One rank: when it exited, and its time in these phases (0: not known). Waits for a full disk are part of
 * checkpoint_ms. */
struct spell_rank {
    int64_t exit, init_ms, data_ms, checkpoint_ms;
};

const char *bucket_name(enum bucket bucket);

void goodput_put(struct goodput *s, enum bucket bucket, int64_t ms);    /* ms < 0 counts as 0 */
void goodput_add(struct goodput *sum, const struct goodput *s);
bool goodput_adds_up(const struct goodput *s);

/* Adds one rank's wall time. */
void goodput_rank(struct goodput *s, const struct spell *spell, const struct spell_rank *rank);

/* {rank_ms, productive, replayed, ...}, all in ms. NULL when memory ran out. */
json_t *goodput_print(const struct goodput *s);
/* -1: wrong type, or the buckets do not sum to rank_ms. */
int goodput_parse(struct goodput *s, const json_t *body);

#endif
