/* SPDX-License-Identifier: Apache-2.0 */
/* loss_log.h - the losses of a run, in a file that survives a crash
 *
 * JSON lines {"step":1,"loss":0.98,"grad_norm":1.1,"lr":0.002,"samples_per_s":800}, at
 * most about LOSS_LOG_LINES of them: with more steps every k-th is written.  After a
 * crash, lines after the step that the run resumes from are removed.
 */
#ifndef ENGINE_TRAIN_LOSS_LOG_H
#define ENGINE_TRAIN_LOSS_LOG_H

#include <stdint.h>

struct err;

enum { LOSS_LOG_LINES = 4000 };

struct loss_log;

/* Opens for appending, after removing lines after `resume_step`. A failure is in *err and does not end the run:
 * loss_log_add() tries again. NULL: no memory. */
struct loss_log *loss_log_open(const char *path, int64_t resume_step, int64_t steps, struct err *err);
void loss_log_close(struct loss_log *m); /* accepts NULL, as do the functions below */
/* -1: the line is lost, because the file cannot be opened or written. */
int loss_log_add(struct loss_log *m, int64_t step, double loss, double grad_norm, double lr,
                 double samples_per_s, struct err *err);

#endif
