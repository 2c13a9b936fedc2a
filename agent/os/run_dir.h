/* SPDX-License-Identifier: Apache-2.0 */
/* run_dir.h - directory of one attempt on a node: the agent's lock, and the fence
 *
 * The controller creates jobs/<id>/<attempt>/ and starts an agent there (command line:
 * agent/attempt/session.h). The agent, in this order:
 *
 *   1. takes agent.lock (flock, exclusive) and keeps it until it and its guardian (agent/ranks/guardian.h) have
 *      ended; if another process holds it, it exits 3 without touching anything;
 *   2. exits 3 if the file `fenced` exists: this attempt must never start again;
 *   3. writes agent.json (agent/os/identity.h), then listens;
 *   4. reports that it is ready.
 *
 * An agent that finds itself fenced while it runs kills its ranks at once and leaves its unsent
 * events in the spool: on a node declared lost, no other process could take the lock from it.
 *
 * The lock shows whether an agent is alive, even after a crash. After a process has written `fenced` while holding the
 * lock, no agent will ever start here.
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

/* Returns a descriptor that holds the lock (close it to release); ERR_CONFLICT: another process
 * has it. */
int run_dir_lock(const char *dir, struct err *err);
/* Called by the holder of the lock, or before waiting for it. why: NULL, or the reason for a
 * running agent to report. */
int run_dir_fence(const char *dir, const char *why, struct err *err);
bool run_dir_fenced(const char *dir);
void run_dir_fence_why(char *out, size_t size, const char *dir); /* "": no reason given */

/* 1: a process holds the lock; 0: free (it was taken and released); -1: unknown. */
int run_dir_held(const char *dir);

/* The machine's administrator may create a file `notice` with a number of milliseconds:
 * everything ends that long from now. Returns true and the time if the file exists. */
bool run_dir_notice(const char *dir, int64_t *left_ms);

#endif
