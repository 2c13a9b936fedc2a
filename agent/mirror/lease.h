/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - which machine may train a job whose mirror several machines can see
 *
 * DIR/lease.json {schema, origin, token, beat, released, host, boot_id, pid, start_time}
 *
 * The token is the fence: each taker has a higher one, and a holder that reads another
 * token than its own has lost and must stop its ranks.  The holder counts `beat` up, and
 * lets go with `released` when the job ends.  A holder of this boot is alive or dead, as
 * /proc says.  Of a holder elsewhere only the beat can tell: who wants its place watches the
 * file for `wait_ms`, and takes it when nothing has changed, so no clock of another
 * machine is believed.  Two who take at once are told apart by DIR/lease-<token>, which only
 * one of them can make.
 *
 * The directory may be slow and far away (a mounted drive): only lease_take() and
 * lease_beat() touch it, and they are called where blocking harms nobody.
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
    char            origin[LEASE_ORIGIN];   /* of the job: one mirror has one */
    char            host[LEASE_HOST];
    struct identity owner;                  /* boot_id, pid, start_time of this process */
    int64_t         token, beat;
};

/* Called before a wait for a holder elsewhere; `text` is a sentence about it. */
typedef void (*lease_waits_fn)(const char *text);

/* The lease of `dir` (which exists) for the job `origin`. ERR_CONFLICT: the mirror is another job's,
 * or its holder lives; the sentence says where. */
int lease_take(struct lease *l, const char *dir, const char *origin, int64_t wait_ms,
               lease_waits_fn waits, struct err *err);

/* 0: still ours, and the beat is written; -1 with ERR_CONFLICT: another has it, and who; -1 with
 * another code: the directory did not answer, which means nothing yet. */
int lease_beat(struct lease *l, struct err *err);

/* The next taker need not wait. */
int lease_release(struct lease *l, struct err *err);

#endif
