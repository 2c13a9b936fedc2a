/* SPDX-License-Identifier: Apache-2.0 */
/* event_file.h - a run for TensorBoard: scalars, pictures and hyper-parameters
 *
 * DIR/events.out.tfevents.SECONDS.HOST.PID: records of TensorFlow (length, masked CRC-32C of both, RFC 3720) with the
 * message Event of tensorflow/core/util/event.proto. Each start of the run writes a separate file, with the step from
 * which TensorBoard drops values of earlier files. Each record is written by one call, so a crash can truncate only the
 * last.
 */
#ifndef ENGINE_TRAIN_EVENT_FILE_H
#define ENGINE_TRAIN_EVENT_FILE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_file;

struct event_scalar {
    const char *tag;
    double      value; /* shown as such if not finite */
};

/* -1: it cannot be written; *out is NULL. `step`: the step at which the run begins. */
int event_file_open(struct event_file **out, const char *dir, int64_t step, struct err *err);
void event_file_close(struct event_file *f); /* accepts NULL, as do the functions below: nothing is written */

int event_file_scalars(struct event_file *f, int64_t step, const struct event_scalar *list, size_t count,
                       struct err *err);
/* A PNG file. */
int event_file_picture(struct event_file *f, int64_t step, const char *tag, const char *path, struct err *err);
/* Hyper-parameters, a tree of JSON: each number, text and bool by its path, such as optimizer.lr. */
int event_file_settings(struct event_file *f, const json_t *settings, struct err *err);

/* CRC-32C (Castagnoli). */
uint32_t event_file_crc(const void *bytes, size_t size);

#endif
