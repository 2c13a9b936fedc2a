/* SPDX-License-Identifier: Apache-2.0 */
/* machine_lease_internal.h - a lease, and the view of one try; shared by machine_lease*.c only */
#ifndef AGENT_MACHINE_MACHINE_LEASE_INTERNAL_H
#define AGENT_MACHINE_MACHINE_LEASE_INTERNAL_H

#include "agent/machine/machine_dir.h"
#include "agent/machine/machine_lease.h"

struct machine_lease {
    char dir[MACHINE_DIR_PATH];
    char file[MACHINE_DIR_NAME], name_file[MACHINE_DIR_NAME];
    struct machine_ask ask;
    const struct lock_bundle *bundle;
    int claim;              /* the claim's descriptor while it waits; -1: in the bundle, or never made */
    int64_t arrived_ms, arrived_s, since_s;
    struct machine_set has; /* what it holds */
    bool holds;
    /* as last seen */
    json_t *claims;         /* machine_claims.h */
    json_t *busy;           /* {name of a lock: its holder}: locks held without a claim */
};

/* The view of one try. */
struct machine_view {
    struct machine_claim *claims;
    int64_t *holders;
    struct machine_state state;
    struct machine_set free;
    int64_t id; /* the own claim's */
};

/* machine_lease_view.c: reads the view; call machine_view_fini() in any case. -1: the claim is not its own. */
int machine_view_init(struct machine_view *v, const struct machine_lease *l);
void machine_view_fini(struct machine_view *v);
void machine_view_remove(struct machine_set *from, const struct machine_set *these);

/* The same file: the name of a lock, and all suitable resources. */
void machine_lease_lock_name(char out[MACHINE_DIR_NAME], const struct machine_lease *l, int resource);
struct machine_set machine_lease_any(const struct machine_lease *l);
bool machine_lease_is_holding(const json_t *claim);
/* GPUs and slots listed in a claim, which may name resources that this machine does not have. */
struct machine_set machine_lease_set_of(const struct machine_lease *l, const json_t *claim, const char *gpus,
                                        const char *cpus);

/* machine_lease_why.c: why it waits, after a try; place: its claim's place in the order. */
void machine_lease_explain(char text[MACHINE_TEXT], const struct machine_lease *l, const struct machine_view *v,
                           int place);

#endif
