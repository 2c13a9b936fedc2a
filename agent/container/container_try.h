/* SPDX-License-Identifier: Apache-2.0 */
/* container_try.h - asks the container runtimes of this node whether they work */
#ifndef AGENT_CONTAINER_CONTAINER_TRY_H
#define AGENT_CONTAINER_CONTAINER_TRY_H

#include <jansson.h>

/* Each row of container_found() that can be used gets "version", or "error": the last line of the runtime. */
void container_try(json_t *found);

#endif
