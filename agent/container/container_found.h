/* SPDX-License-Identifier: Apache-2.0 */
/* container_found.h - the container runtimes of this node, by looking only: nothing is started
 *
 *   [{"runtime":"podman", "path":"/usr/bin/podman", "rootless":false, "cdi":true, "why":""}]
 *
 * In the order of container_kind.h; one that is not installed has no row.  why: why it cannot be used, "" = it can.
 * cdi: a description of NVIDIA GPUs for podman is there.
 */
#ifndef AGENT_CONTAINER_CONTAINER_FOUND_H
#define AGENT_CONTAINER_CONTAINER_FOUND_H

#include <jansson.h>

/* A new array; NULL: no memory. */
json_t *container_found(void);

#endif
