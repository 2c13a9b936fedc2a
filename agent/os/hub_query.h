/* SPDX-License-Identifier: Apache-2.0 */
/* hub_query.h - asks jobctl-fetch which files of a job's models are in this host's cache, and which the hub has */
#ifndef AGENT_OS_HUB_QUERY_H
#define AGENT_OS_HUB_QUERY_H

#include <jansson.h>

struct err;

enum { HUB_QUERY_MS = 60000 };

/* The answer of `jobctl-fetch --check --json` (agent/fetch/main.c) for the canonical spec. Environment: ours,
 * overridden by `environment` (an object or NULL), overridden by the spec's `env:`. NULL without err: the spec names
 * no model on a hub. May take until the hub's time limit. */
json_t *hub_query(const json_t *spec, const json_t *environment, struct err *err);

#endif
