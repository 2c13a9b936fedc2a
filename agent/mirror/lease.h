/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - lease in the mirror: which of several machines may train a job
 *
 * DIR/lease.json {schema, origin, token, beat, released, host, boot_id, pid, start_time}
 *
 * The token is the fence: each taker uses a higher one, and a holder that reads another token than
 * its own has lost the lease and must stop its ranks. The holder increments `beat`, and sets
 * `released` when the job ends. For a holder of this boot, /proc tells whether it is alive. For a
 * holder elsewhere only the beat can tell: a taker watches the file for `wait_ms` and takes the
 * lease if nothing changed, so no other machine's clock is trusted. Two concurrent takers are
 * separated by DIR/lease-<token>, which only one of them can create.
 *
 * The directory may be slow and remote (a mounted drive): only lease_take() and lease_beat() access
 * it, from where blocking is harmless.
 */
#ifndef AGENT_MIRROR_LEASE_H
#define AGENT_MIRROR_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/os/identity.h"

struct err;

enum { LEASE_PATH = 4096, LEASE_ORIGIN = 40, LEASE_HOST = 256 };

struct lease {
    char            dir[LEASE_PATH];
    char origin[LEASE_ORIGIN]; /* the job's identity: a mirror has exactly one */
    char            host[LEASE_HOST];
    struct identity owner;                  /* boot_id, pid, start_time of this process */
    int64_t         token, beat;
};

/* Called before waiting for a holder elsewhere; `text` is a sentence for the user. */
typedef void (*lease_waits_fn)(const char *text);

/* Takes the lease of `dir` (must exist) for the job `origin`. ERR_CONFLICT: the mirror belongs
 * to another job, or the holder is alive; the sentence names it. */
int lease_take(struct lease *l, const char *dir, const char *origin, int64_t wait_ms,
               lease_waits_fn waits, struct err *err);

/* 0: still held, and the beat is written; -1 with ERR_CONFLICT: another machine holds it, named
 * in err; -1 with another code: the directory did not respond, which proves nothing yet. */
int lease_beat(struct lease *l, struct err *err);

/* Releases the lease: the next taker need not wait. */
int lease_release(struct lease *l, struct err *err);

#endif
