/* SPDX-License-Identifier: Apache-2.0 */
/* event_text.h - a stored event as one sentence for people */
#ifndef CONTROLLER_JOB_EVENT_TEXT_H
#define CONTROLLER_JOB_EVENT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Never fails: a kind that it does not know is named. */
void event_text(char *out, size_t size, const char *kind, const json_t *body);

/* Worth a line to somebody who follows a job. */
bool event_is_news(const char *kind, const json_t *body);

#endif
