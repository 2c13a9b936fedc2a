/* SPDX-License-Identifier: Apache-2.0 */
/* event_view.h - an event of a job as a sentence
 *
 * Kinds and bodies are those of agent/wire.h and controller/job_core.h.  A kind
 * that is not known here is shown with the text that came with it.
 */
#ifndef CONTROLLER_EVENT_VIEW_H
#define CONTROLLER_EVENT_VIEW_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { EVENT_TEXT = 1024 };

/* False: an event that only machines read (a step). */
bool event_view_text(char *out, size_t size, const json_t *event);

/* Worth a line to somebody who follows a job: restarts, checkpoints, samples, warnings. */
bool event_view_is_news(const json_t *event);

#endif
