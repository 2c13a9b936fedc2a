/* SPDX-License-Identifier: Apache-2.0 */
/* incident.h - what all ranks were doing when one of them failed or hung
 *
 * A file for people, RUN_DIR/incident-N.txt, N the generation: per rank its step, phase and
 * since when, its collectives, its last steps, its threads and last lines; then the node.
 * Written before anything is stopped, from memory and /proc alone, in about a millisecond a
 * rank.  What takes longer (native stacks) is appended by agent/monitor/inspector.h.
 */
#ifndef AGENT_ATTEMPT_INCIDENT_H
#define AGENT_ATTEMPT_INCIDENT_H

#include <jansson.h>
#include <stdint.h>

struct err;
struct rank_set;

struct incident {
    const char            *run_dir, *ckpt_dir;
    int64_t                job, attempt;
    int                    generation;
    const char            *reason;
    const struct rank_set *rank_set;
};

enum { INCIDENTS_KEPT = 20 }; /* older ones of the same attempt are removed */

/* The body of the event: {path, text}, a new object; NULL with *err set. */
json_t *incident_write(const struct incident *i, struct err *err);

/* What another node has found out afterwards (native stacks of its ranks). */
void incident_append(const char *run_dir, int generation, const char *node, const char *text);

#endif
