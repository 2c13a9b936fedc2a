/* SPDX-License-Identifier: Apache-2.0 */
/* log_copy.h - the logs of an attempt on another machine, as they are kept here
 *
 * In the attempt's own directory, under the names and with the limits that they have there: whoever
 * reads a log need not know where it was written.
 */
#ifndef CONTROLLER_REMOTE_LOG_COPY_H
#define CONTROLLER_REMOTE_LOG_COPY_H

#include <jansson.h>

struct err;

/* {FILE: bytes that are here}, for ATTACH. */
json_t *log_copy_have(const char *run_dir);

/* What a LOG brings; bytes that are here already are left out. The message is outside data. */
int log_copy_take(const char *run_dir, const json_t *body, struct err *err);

#endif
