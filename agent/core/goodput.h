/* SPDX-License-Identifier: Apache-2.0 */
/* goodput.h - where the time of ranks went: nine buckets that always add up
 *
 * Pure: no clock, no I/O.
 * A second of a rank is in exactly one bucket, so the buckets of a
 * generation sum to its wall time times its ranks, and those of a job to all
 * of its life.  A step counts as productive when it is made for the first
 * time; making it again, or dying in the middle of it, is `replayed`.
 */
#ifndef AGENT_CORE_GOODPUT_H
#define AGENT_CORE_GOODPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum bucket {
    BUCKET_PRODUCTIVE,
    BUCKET_REPLAYED,    /* work that was lost, or done again because it had been lost */
    BUCKET_INIT,        /* an agent, the setup, and ranks up to their first batch */
    BUCKET_DATA,        /* waiting for samples */
    BUCKET_CHECKPOINT,
    BUCKET_HANG,        /* from the last sign of life until somebody noticed */
    BUCKET_RESTART,     /* from a failure to the next ranks, back-off included */
    BUCKET_QUEUED,
    BUCKET_PAUSED,      /* held by a person */
    BUCKETS
};

struct goodput {
    int64_t rank_ms;        /* wall time x ranks: the sum of the buckets */
    int64_t ms[BUCKETS];
};

/* What is known about one generation of ranks. Times in ms since its ranks were there; -1: never. */
struct spell {
    int64_t wall;           /* until it was over */
    int64_t started;        /* the first rank told that it begins; -1: it says nothing of itself */
    int64_t fresh;          /* from here on its steps were new */
    int64_t last;           /* the last step, or checkpoint */
    int64_t failed;         /* noticed; -1: it ended well, or as asked */
    bool    hung;
};

/* One rank of it: it ended at `exit`, and spent so much in these phases (0: nothing known). */
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
/* -1: not of that shape, or it does not add up. */
int goodput_parse(struct goodput *s, const json_t *body);

#endif
