/* SPDX-License-Identifier: Apache-2.0 */
/* sample_log.h - log of the samples that each rank trained on, step by step, across restarts
 *
 * One file per rank, DIR/rank-00000.jsonl, with a line per completed step:
 *
 *   {"step":12,"rank":0,"world":3,"height":8,"width":16,"epochs":[0,0,1],"samples":[5,9,3]}
 *
 * Step 1 is the first.  Samples are numbers of engine/data/dataset.h, epochs count how often each
 * was taken before.  A line is one write() before the step can be part of a checkpoint, and
 * is synced before the checkpoint is; lines beyond the step that a run resumes from are
 * removed.  So the files of all ranks of all attempts together list each step once.
 */
#ifndef ENGINE_DATA_SAMPLE_LOG_H
#define ENGINE_DATA_SAMPLE_LOG_H

#include <stdint.h>

#include "engine/data/batch_plan.h"

struct err;

#define SAMPLE_LOG_DIR "sample-log" /* in the directory of checkpoints */

struct sample_log;

/* Truncates this rank's file to `resume_step`; rank 0 also truncates those of ranks that no longer
 * exist. A failure is in *err and does not end the run: sample_log_commit() tries again. NULL: no
 * memory, or the path is too long. */
struct sample_log *sample_log_open(const char *dir, int rank, int world, int64_t resume_step, struct err *err);
void sample_log_close(struct sample_log *l); /* NULL is allowed, here and below */

/* Collects the samples of a step; sample_log_commit() writes them as one line. -1: it could not; the
 * line waits in memory for the next commit, as long as all that wait are at most 64 MiB. */
void sample_log_begin(struct sample_log *l);
int sample_log_add(struct sample_log *l, const struct batch_slot *slots, int n, int height, int width, struct err *err);
int sample_log_commit(struct sample_log *l, int64_t step, struct err *err);
/* Syncs the file to disk. */
int sample_log_sync(struct sample_log *l, struct err *err);

/* One line of a file. */
struct sample_log_line {
    int64_t                  step;
    int                      rank, world, height, width, n;
    const struct batch_slot *slots;
};
/* Called with each line of a directory, file by file; returns -1 to stop. */
typedef int (*sample_log_fn)(void *arg, const struct sample_log_line *line, struct err *err);
int sample_log_read(const char *dir, sample_log_fn fn, void *arg, struct err *err);

#endif
