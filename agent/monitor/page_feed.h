/* SPDX-License-Identifier: Apache-2.0 */
/* page_feed.h - what is seen of a rank on another node, sent as what has changed of it
 *
 * Pure: no clock, no I/O.
 * A flight page is 16 KiB and of it some hundred bytes change between two looks. A member keeps what
 * it has told of each rank, the head what it was told; a new connection begins with nothing told.
 */
#ifndef AGENT_MONITOR_PAGE_FEED_H
#define AGENT_MONITOR_PAGE_FEED_H

#include <jansson.h>
#include <stdint.h>

#include "agent/ranks/capture.h"
#include "engine/contract/flight.h"

struct err;

enum { PAGE_BLOCK = 256, PAGE_BLOCKS = FLIGHT_BYTES / PAGE_BLOCK };

/* What is seen of a rank; zeroed: nothing. */
struct page_view {
    int64_t  pid;      /* of the rank; 0: it has ended */
    char     state;    /* agent/os/process.h */
    uint64_t io_mib;
    char     lines[CAPTURE_TAIL + 1]; /* the last of its output */
    union {
        struct flight_page page;
        unsigned char      bytes[FLIGHT_BYTES];
    } u;
};

/* What `now` shows that `told` does not, as a row of PAGES (agent/wire/leader_wire.h); NULL:
 * nothing. */
json_t *page_feed_row(int rank, const struct page_view *now, const struct page_view *told);

/* The other side: the rank of a row, -1 where it is none; then what it says goes into *seen. */
int page_feed_rank(const json_t *row);
int page_feed_take(struct page_view *seen, const json_t *row, struct err *err);

#endif
