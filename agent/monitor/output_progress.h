/* SPDX-License-Identifier: Apache-2.0 */
/* output_progress.h - the progress of a `run:` job, from its output or its flight page, as a progress line
 *
 * Pure: no clock, no I/O.
 * The line has the form of a rank's own {"ev":"step",...} (engine/contract/progress.h) and a few fields more: epoch,
 * epochs, tokens_per_s, eta_s. The step on a page that the script writes (templates/jobctl_progress.py) takes
 * precedence over printed steps.
 */
#ifndef AGENT_MONITOR_OUTPUT_PROGRESS_H
#define AGENT_MONITOR_OUTPUT_PROGRESS_H

#include <jansson.h>
#include <stddef.h>

#include "agent/printed/progress_reader.h"

struct flight_page;

struct output_progress {
    bool    off;
    char   *pattern; /* owned */
    int64_t page_step;
    struct progress_reader reader;
    struct progress_seen   seen;
};

/* `rule` is the spec's `progress:`: NULL, "auto", "off" or a pattern.  No memory: as "auto". */
void output_progress_init(struct output_progress *o, const char *rule);
void output_progress_fini(struct output_progress *o);
void output_progress_begin(struct output_progress *o); /* a new generation */

void output_progress_feed(struct output_progress *o, const char *bytes, size_t size);
/* A new line, or NULL if nothing changed; `page`: the first rank's; pid 0: the script writes no page. */
json_t *output_progress_line(struct output_progress *o, const struct flight_page *page);

#endif
