/* SPDX-License-Identifier: Apache-2.0 */
/* log_copy.h - local copies of the logs of an attempt on another machine
 *
 * They are in the attempt's directory, with the same names and size limits as on the other machine, so that a reader
 * need not know where a log was written.
 */
#ifndef CONTROLLER_REMOTE_LOG_COPY_H
#define CONTROLLER_REMOTE_LOG_COPY_H

#include <jansson.h>

struct err;

/* {FILE: bytes copied so far}, for ATTACH. */
json_t *log_copy_have(const char *run_dir);

/* Appends the bytes of a LOG message; known bytes are skipped. The message is untrusted. */
int log_copy_take(const char *run_dir, const json_t *body, struct err *err);

#endif
