/* SPDX-License-Identifier: Apache-2.0 */
/* lease_rule.h - whether a lease may be taken from its holder
 *
 * Pure: no clock, no I/O.
 * A lease whose holder is proven dead is taken at once; a holder that lives on this machine keeps it. For any other
 * holder (on another machine, in another container, stopped by a signal), only the beat shows whether it is alive: the
 * taker reads it repeatedly, and may take the lease after a silence of `wait_ms`. Each check adds at most
 * LEASE_LOOK_MAX_MS to the silence, because a taker that was suspended, or whose disk hung, was not watching. No other
 * machine's clock is used.
 */
#ifndef AGENT_OS_LEASE_RULE_H
#define AGENT_OS_LEASE_RULE_H

#include <stdbool.h>
#include <stdint.h>

enum { LEASE_ORIGIN = 40, LEASE_HOST = 256, LEASE_NAME = 128, LEASE_HOME = 1024, LEASE_LOOK_MAX_MS = 1000 };

/* The contents of a lease file. */
struct lease_record {
    char origin[LEASE_ORIGIN]; /* the job's identity (engine/checkpoint/lineage.h) */
    char name[LEASE_NAME], host[LEASE_HOST], home[LEASE_HOME]; /* for people; "": not known */
    char boot_id[40];
    int64_t job, pid, start_time;
    int64_t pid_ns;      /* its pid namespace; 0: not known */
    int64_t token, beat; /* token 0: there is no holder */
    bool released;
    bool damaged;        /* the file is damaged; only the token is known, and whether there is a holder */
};

enum lease_word {
    LEASE_FREE,    /* take it: it is free, or its holder released it */
    LEASE_DEAD,    /* take it: its holder is proven dead */
    LEASE_SILENT,  /* take it: its holder has been silent for long enough */
    LEASE_HELD,    /* its holder is alive */
    LEASE_FOREIGN, /* it belongs to another job */
    LEASE_WATCH    /* check again soon */
};

/* What a taker sees. */
struct lease_look {
    const struct lease_record *holder;
    bool here;           /* its process can be looked up: same boot and pid namespace ... */
    bool alive, stopped; /* ... and this is its state */
    int64_t now_ms;
};

/* The checks so far; starts as zero. */
struct lease_watch {
    int64_t token, beat, at_ms, silent_ms;
};

/* `origin`: the only job that may hold this lease; NULL: any. */
enum lease_word lease_rule(struct lease_watch *w, const struct lease_look *look, const char *origin, int64_t wait_ms);

#endif
