/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_watch.h - reads a job's NCCL log after NCCL has connected, and after a rank has failed
 *
 * Each node reads the logs of its own ranks. The plan makes NCCL write to files in the run
 * directory, one per process, unless the job has configured NCCL's log; then the ranks' output is
 * parsed. The files of a generation are removed when the next one begins, and at most READ_MOST
 * bytes of a file are read.
 */
#ifndef AGENT_MONITOR_NCCL_WATCH_H
#define AGENT_MONITOR_NCCL_WATCH_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct nccl_watch;

/* For the facts: the path pattern of NCCL's log files (`nccl_log`), or NULL. run_dir: absolute. */
json_t *nccl_watch_place(const char *run_dir);

/* Borrows plan (with several nodes, this node's part) and facts. NULL: one rank, no GPUs, or no
 * memory; every function below accepts NULL. */
struct nccl_watch *nccl_watch_create(const json_t *plan, const json_t *facts);
void nccl_watch_destroy(struct nccl_watch *w);

void nccl_watch_begin(struct nccl_watch *w); /* a new generation: removes older log files */
void nccl_watch_output(struct nccl_watch *w, int rank, const char *bytes, size_t size);

/* Called periodically: returns the body of an event (nccl_log_judge()) once NCCL has been silent
 * for a while after connecting; the same body is reported only once. */
json_t *nccl_watch_look(struct nccl_watch *w, int64_t now_ms);

/* `lines` preceded by NCCL's warnings from its files, which a rank's log does not contain; valid
 * until the next call. */
const char *nccl_watch_evidence(struct nccl_watch *w, const char *lines);

#endif
