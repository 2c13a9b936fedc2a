/* SPDX-License-Identifier: Apache-2.0 */
/* run_dir.h - the directory of one attempt on a node: who runs there, and the fence
 *
 * The controller makes jobs/<id>/<attempt>/ and starts
 *
 *   jobctl-agent run --dir DIR --job ID --attempt N --nonce HEX --ready-fd FD
 *
 * in a session of its own.  The agent, in this order:
 *
 *   1. takes agent.lock (flock, exclusive) and keeps it until it ends; held by
 *      another, it exits 3 and has touched nothing;
 *   2. exits 3 when there is a file `fenced`: this attempt must never start again;
 *   3. listens on agent.sock, writes agent.json (its identity; beside, renamed);
 *   4. writes one byte to FD and closes it.  End of file without a byte: it failed.
 *
 * So the lock tells whether an agent lives, whatever died meanwhile, and who
 * holds the lock and writes `fenced` has proof that no agent will come.
 *
 * The agent ends after its last event was acknowledged, or after a linger that
 * is long enough for a controller to come back; the spool stays.
 */
#ifndef AGENT_RUN_DIR_H
#define AGENT_RUN_DIR_H

#include <stdbool.h>
#include <stdint.h>

struct err;

#define RUN_DIR_LOCK     "agent.lock"
#define RUN_DIR_FENCED   "fenced"
#define RUN_DIR_IDENTITY "agent.json"
#define RUN_DIR_SOCKET   "agent.sock"
#define RUN_DIR_SPOOL    "spool"
#define RUN_DIR_LOG      "agent.log"

enum { RUN_DIR_NONCE = 33 };

/* agent.json: the same names as keys. */
struct run_identity {
    int64_t job, attempt;
    char    nonce[RUN_DIR_NONCE];
    char    node[128];
    char    boot_id[64];
    int64_t pid;
    int64_t start_time;     /* field 22 of /proc/PID/stat */
    int64_t incarnation;
};

/* This process, here and now; job, attempt and nonce stay as they are. */
int run_identity_fill(struct run_identity *id, struct err *err);
int run_identity_write(const char *dir, const struct run_identity *id, struct err *err);
/* ERR_NOT_FOUND where no agent ever got so far. */
int run_identity_read(struct run_identity *id, const char *dir, struct err *err);
/* Is exactly this process alive (same boot, same start time)? */
bool run_identity_alive(const struct run_identity *id);

/* A descriptor that holds the lock; ERR_CONFLICT when another holds it. Close it to let go. */
int run_dir_lock(const char *dir, struct err *err);
int run_dir_fence(const char *dir, struct err *err);    /* by the one who holds the lock */
bool run_dir_fenced(const char *dir);

#endif
