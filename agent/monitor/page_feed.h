/* SPDX-License-Identifier: Apache-2.0 */
/* page_feed.h - sends a rank's flight page and state to the leader, as differences
 *
 * Pure: no clock, no I/O.
 * A flight page is 16 KiB, of which a few hundred bytes change between two checks. The follower keeps
 * the last state sent per rank, the leader the last state received; a new connection starts from an
 * empty state.
 */
#ifndef AGENT_MONITOR_PAGE_FEED_H
#define AGENT_MONITOR_PAGE_FEED_H

#include <jansson.h>
#include <stdint.h>

#include "agent/monitor/activity.h"
#include "agent/ranks/capture.h"
#include "engine/contract/flight.h"

struct err;

enum { PAGE_BLOCK = 256, PAGE_BLOCKS = FLIGHT_BYTES / PAGE_BLOCK };

/* State of a rank; zeroed: empty. */
struct page_view {
    int64_t pid;       /* of the rank; 0: it has exited */
    char     state;    /* agent/os/process.h */
    struct activity_sample use;
    char lines[CAPTURE_TAIL + 1]; /* tail of its output */
    union {
        struct flight_page page;
        unsigned char      bytes[FLIGHT_BYTES];
    } u;
};

/* The differences between `now` and `told` (the state last sent), as a row of PAGES (agent/wire/leader_wire.h);
 * NULL: none. */
json_t *page_feed_row(int rank, const struct page_view *now, const struct page_view *told);

/* The receiving side: applies a row to *seen and returns its rank; -1: invalid row. */
int page_feed_rank(const json_t *row);
int page_feed_take(struct page_view *seen, const json_t *row, struct err *err);

#endif
