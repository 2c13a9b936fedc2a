/* SPDX-License-Identifier: Apache-2.0 */
/* container_try.h - asks the container runtimes of this node whether they work */
#ifndef AGENT_CONTAINER_CONTAINER_TRY_H
#define AGENT_CONTAINER_CONTAINER_TRY_H

#include <jansson.h>

/* Adds "version" to each usable row of container_found(), or "error": the runtime's last line. */
void container_try(json_t *found);

#endif
