/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - lease of a directory: which of several jobs or machines may write there
 *
 * Used for a mirror (agent/mirror/mirror_run.h), and for a checkpoint.dir named by a spec (lease_keeper.h).
 *
 * DIR/lease.json {schema, origin, name, job, home, token, beat, released, host, boot_id, pid_ns, pid, start_time}
 *
 * The token is the fence: each taker uses a higher one, and a holder that reads a higher one has lost the lease and
 * must stop its ranks; the ranks also check the file themselves before they publish (engine/contract/fence.h). The
 * holder increments `beat`, and sets `released` when the job ends. lease_rule.h says when another may take it. Of two
 * concurrent takers, only one can create DIR/lease-<token>. The protocol needs exclusive creation and rename, but no
 * locks and no common clock, so it works on NFS.
 *
 * The directory may be slow and remote: only these functions access it, and only from threads that may block.
 */
#ifndef AGENT_OS_LEASE_H
#define AGENT_OS_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent/os/lease_rule.h"
#include "engine/contract/fence.h"

struct err;

enum { LEASE_PATH = 4096, LEASE_WAIT_MS = 30000, LEASE_BEATS = 6 /* in that time */ };

struct lease {
    char dir[LEASE_PATH];
    char fence[FENCE_TEXT]; /* this holder's fence */
    bool mirror;
    struct lease_record own;
};

/* Who takes a lease. Texts are copied. */
struct lease_taker {
    const char *origin, *name, *home; /* name and home may be "" */
    int64_t job;
    bool mirror;             /* one job owns it: all others are refused */
    const atomic_bool *over; /* set: stop waiting for a silent holder; or NULL */
};

/* Called before waiting for a holder that only its beat can prove alive; `text` is a sentence for the user. */
typedef void (*lease_waits_fn)(void *arg, const char *text);

/* Takes the lease of `dir`, which must exist. ERR_CONFLICT: its holder is alive, or it is another job's mirror; the
 * message names it. Temporary files of a holder that did not release it are removed. */
int lease_take(struct lease *l, const char *dir, const struct lease_taker *by, int64_t wait_ms,
               lease_waits_fn waits, void *arg, struct err *err);

/* 0: still held, and the beat is written; -1 with ERR_CONFLICT: another has it, named
 * in err; -1 with another code: the directory did not respond, which proves nothing yet. */
int lease_beat(struct lease *l, struct err *err);

/* Releases the lease: the next taker need not wait. */
int lease_release(struct lease *l, struct err *err);

/* How long to wait for a silent holder: JOBCTL_LEASE_MS, or LEASE_WAIT_MS. */
int64_t lease_wait_ms(void);

#endif
