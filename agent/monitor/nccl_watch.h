/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_watch.h - NCCL's own log of a job: read once it has connected, and when a rank has failed
 *
 * Each node does so for its own ranks.  The plan has NCCL write it into files in the run directory, one
 * for each process, where the job has not decided otherwise; else it is looked for in what the ranks
 * print.  The files of a generation are removed when the next one begins, and never more is read of one
 * than READ_MOST.
 */
#ifndef AGENT_MONITOR_NCCL_WATCH_H
#define AGENT_MONITOR_NCCL_WATCH_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct nccl_watch;

/* For the facts: where the plan is to have NCCL write (`nccl_log`), or NULL. run_dir: absolute. */
json_t *nccl_watch_place(const char *run_dir);

/* Borrows plan (of several nodes the part of this one) and facts. NULL: one rank, no GPUs, or no memory; fine for all below. */
struct nccl_watch *nccl_watch_create(const json_t *plan, const json_t *facts);
void nccl_watch_destroy(struct nccl_watch *w);

void nccl_watch_begin(struct nccl_watch *w); /* a generation: what the one before wrote goes */
void nccl_watch_output(struct nccl_watch *w, int rank, const char *bytes, size_t size);

/* Now and then: the body of an event (nccl_log_judge()), once NCCL has been silent for a while after
 * it connected; the same one is told once. */
json_t *nccl_watch_look(struct nccl_watch *w, int64_t now_ms);

/* `lines` with NCCL's warnings before them, which the files have and a rank's log has not; valid until
 * the next call. */
const char *nccl_watch_evidence(struct nccl_watch *w, const char *lines);

#endif
