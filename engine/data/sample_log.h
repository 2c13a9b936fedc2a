/* SPDX-License-Identifier: Apache-2.0 */
/* sample_log.h - which samples each rank trained on, step by step, whatever crashes between
 *
 * A file per rank, DIR/rank-00000.jsonl, with a line per step that had its effect:
 *
 *   {"step":12,"rank":0,"world":3,"height":8,"width":16,"epochs":[0,0,1],"samples":[5,9,3]}
 *
 * Step 1 is the first.  Samples are numbers of engine/data/dataset.h, epochs tell how often each
 * was taken before.  A line is one write() before the step can be part of a checkpoint, and
 * on disk before the checkpoint is; what lies beyond the step that a run resumes from is cut
 * off.  So the files of all ranks, of all sizes that a job had, tell one story.
 */
#ifndef ENGINE_DATA_SAMPLE_LOG_H
#define ENGINE_DATA_SAMPLE_LOG_H

#include <stdint.h>

#include "engine/data/batch_plan.h"

struct err;

#define SAMPLE_LOG_DIR "sample-log" /* in the directory of checkpoints */

struct sample_log;

/* Cuts this rank's file to `resume_step`, and rank 0 also those of ranks that are no more. */
int sample_log_open(struct sample_log **out, const char *dir, int rank, int world,
                    int64_t resume_step, struct err *err);
void sample_log_close(struct sample_log *l); /* NULL is fine, here and below */

/* The samples of a step are gathered, and the step is then committed. */
void sample_log_begin(struct sample_log *l);
int sample_log_add(struct sample_log *l, const struct batch_slot *slots, int n, int height,
                   int width, struct err *err);
int sample_log_commit(struct sample_log *l, int64_t step, struct err *err);
/* To disk. */
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
