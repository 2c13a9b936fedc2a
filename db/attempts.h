/* SPDX-License-Identifier: Apache-2.0 */
/* attempts.h - one row per attempt, with its agent
 *
 * `acked` is the highest committed sequence number of the agent: an event with
 * this or a lower number is a duplicate and dropped.
 */
#ifndef DB_ATTEMPTS_H
#define DB_ATTEMPTS_H

#include <stdint.h>

struct err;
struct store;

enum { ATTEMPT_NONCE = 33, ATTEMPT_NODE = 128, ATTEMPT_BOOT = 64, ATTEMPT_DIR = 4096 };

struct attempt_row {
    int64_t job;
    int64_t attempt;
    char    nonce[ATTEMPT_NONCE];
    char    node[ATTEMPT_NODE];
    char    run_dir[ATTEMPT_DIR];
    char    boot_id[ATTEMPT_BOOT];      /* "" and -1 until the agent connects */
    int64_t pid;
    int64_t start_time;
    int64_t incarnation;
    int64_t acked;
    int64_t started_ms;
    int64_t ended_ms;                   /* -1: not ended */
};

int attempts_insert(struct store *s, const struct attempt_row *row, struct err *err);
/* The same, in the place of one that may be there. */
int attempts_put(struct store *s, const struct attempt_row *row, struct err *err);
/* Updates identity, incarnation, acked and ended_ms; the rest never changes. */
int attempts_update(struct store *s, const struct attempt_row *row, struct err *err);
int attempts_get(struct attempt_row *row, struct store *s, int64_t job, int64_t attempt, struct err *err);

/* The attempts that ended after `ms`; returns the nonzero value of `each` that stopped it, else
 * 0. */
typedef int (*attempts_each_fn)(void *ctx, const struct attempt_row *row);
int attempts_ended_since(struct store *s, int64_t ms, attempts_each_fn each, void *ctx, struct err *err);

#endif
