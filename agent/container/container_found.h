/* SPDX-License-Identifier: Apache-2.0 */
/* container_found.h - the container runtimes of this node, found without starting anything
 *
 *   [{"runtime":"podman", "path":"/usr/bin/podman", "rootless":false, "cdi":true, "why":""}]
 *
 * Rows are in the order of container_kind.h; a runtime that is not installed has no row. why: why it cannot be used, ""
 * = it can. cdi: a CDI description of NVIDIA GPUs for podman exists.
 */
#ifndef AGENT_CONTAINER_CONTAINER_FOUND_H
#define AGENT_CONTAINER_CONTAINER_FOUND_H

#include <jansson.h>

/* A new array; NULL: no memory. */
json_t *container_found(void);

#endif
