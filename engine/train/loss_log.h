/* SPDX-License-Identifier: Apache-2.0 */
/* loss_log.h - the loss of a run over its steps, in a file that survives a crash
 *
 * JSON lines {"step":1,"loss":0.98,"grad_norm":1.1,"lr":0.002,"samples_per_s":800}, at
 * most about LOSS_LOG_LINES of them: with more steps every k-th is written.  After a
 * crash, lines beyond the step that the run resumes from are cut off, so that the
 * file tells one story.
 */
#ifndef ENGINE_TRAIN_LOSS_LOG_H
#define ENGINE_TRAIN_LOSS_LOG_H

#include <stdint.h>

struct err;

enum { LOSS_LOG_LINES = 4000 };

struct loss_log;

/* Opens to append, after cutting what lies beyond `resume_step`. */
int loss_log_open(struct loss_log **out, const char *path, int64_t resume_step, int64_t steps,
                  struct err *err);
void loss_log_close(struct loss_log *m);
/* A line that cannot be written is lost: a curve is not worth a run. */
void loss_log_add(struct loss_log *m, int64_t step, double loss, double grad_norm, double lr,
                  double samples_per_s);

struct loss_log_point {
    int64_t step;
    double  loss;
};

/* The finite losses of a file in order of step; the caller frees *points. */
int loss_log_read(struct loss_log_point **points, int *len, const char *path, struct err *err);

#endif
