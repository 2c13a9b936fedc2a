/* SPDX-License-Identifier: Apache-2.0 */
/* progress_line.h - a running job on one line: bar, step, loss, samples/s, ETA, goodput
 *
 * Pure: no clock, no I/O.
 * Input: a row and the terminal; output: text that always fits the width.
 */
#ifndef CONTROLLER_CLI_PROGRESS_LINE_H
#define CONTROLLER_CLI_PROGRESS_LINE_H

#include <jansson.h>
#include <stddef.h>

#include "controller/base/terminal.h"

enum { PROGRESS_LINE_SIZE = 1024 };

void progress_line_make(char *out, size_t size, const struct terminal *t, const json_t *row);

#endif
