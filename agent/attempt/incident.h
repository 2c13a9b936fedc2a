/* SPDX-License-Identifier: Apache-2.0 */
/* incident.h - report of the state of all ranks when one of them failed or hung
 *
 * A text file, RUN_DIR/incident-N.txt, where N is the generation. For each rank: step, phase and time in it,
 * collectives, last steps, threads and last lines; then the node. Written before anything is stopped, from memory and
 * /proc alone, in about a millisecond per rank. agent/monitor/inspector.h appends slower information (native stacks).
 */
#ifndef AGENT_ATTEMPT_INCIDENT_H
#define AGENT_ATTEMPT_INCIDENT_H

#include <jansson.h>
#include <stdint.h>

struct err;
struct leader;

struct incident {
    const char            *run_dir, *ckpt_dir;
    int64_t                job, attempt;
    int                    generation;
    const char            *reason;
    const struct leader *leader;
};

enum { INCIDENTS_KEPT = 20 }; /* older reports of the same attempt are removed */

/* Returns the event's body {path, text}, a new object; NULL with *err set. */
json_t *incident_write(const struct incident *i, struct err *err);

/* Appends a later report from another node or rank: "on WHO:", and the text. */
void incident_append(const char *run_dir, int generation, const char *who, const char *text);

#endif
