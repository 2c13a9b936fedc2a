/* SPDX-License-Identifier: Apache-2.0 */
/* event_text.h - a stored event as one sentence */
#ifndef CONTROLLER_JOB_EVENT_TEXT_H
#define CONTROLLER_JOB_EVENT_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Never fails: the text of an unknown kind is the kind itself. */
void event_text(char *out, size_t size, const char *kind, const json_t *body);

/* True if --follow prints the event. */
bool event_is_news(const char *kind, const json_t *body);

#endif
