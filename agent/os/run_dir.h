/* SPDX-License-Identifier: Apache-2.0 */
/* run_dir.h - the directory of one attempt on a node: who runs there, and the fence
 *
 * The controller makes jobs/<id>/<attempt>/ and starts an agent there (the command
 * is in agent/attempt/session.h).  The agent, in this order:
 *
 *   1. takes agent.lock (flock, exclusive) and keeps it until it ends; held by
 *      another, it exits 3 and has touched nothing;
 *   2. exits 3 when there is a file `fenced`: this attempt must never start again;
 *   3. writes agent.json (agent/os/identity.h), then listens;
 *   4. says that it is ready.
 *
 * An agent that finds itself fenced while it runs ends its ranks at once, and leaves what it has to
 * say in its spool: on a node that was given up for lost nobody could take the lock from it.
 *
 * So the lock tells whether an agent lives, whatever died meanwhile, and who
 * holds the lock and writes `fenced` has proof that no agent will come.
 */
#ifndef AGENT_OS_RUN_DIR_H
#define AGENT_OS_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

#define RUN_DIR_LOCK     "agent.lock"
#define RUN_DIR_FENCED   "fenced"
#define RUN_DIR_NOTICE   "notice"
#define RUN_DIR_CALL     "call.json" /* agent/wire/call_home.h */
#define RUN_DIR_IDENTITY "agent.json"
#define RUN_DIR_SOCKET   "agent.sock"
#define RUN_DIR_SPOOL    "spool"
#define RUN_DIR_LOG      "agent.log"

/* A descriptor that holds the lock; ERR_CONFLICT when another holds it. Close it to let go. */
int run_dir_lock(const char *dir, struct err *err);
/* By the one who holds the lock, or who will wait for it. why: NULL, or for an agent that lives to tell. */
int run_dir_fence(const char *dir, const char *why, struct err *err);
bool run_dir_fenced(const char *dir);
void run_dir_fence_why(char *out, size_t size, const char *dir); /* "": it does not say */

/* Does somebody hold the lock?  1 yes; 0 no: it was taken and let go again; -1 it cannot be told. */
int run_dir_held(const char *dir);

/* Who manages the machine may leave a file `notice` with a number of milliseconds: so long after now
 * it ends everything. True, and how long, where there is one. */
bool run_dir_notice(const char *dir, int64_t *left_ms);

#endif
