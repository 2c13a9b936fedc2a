/* SPDX-License-Identifier: Apache-2.0 */
/* container_choice.h - which runtime of a node runs the image of a job
 *
 * Pure: no clock, no I/O.
 * `auto` takes the first that the node has: podman, docker, apptainer, singularity, enroot (Slurm's pyxis). A file
 * needs a runtime that reads it: enroot for .sqsh, apptainer or singularity for any other.
 */
#ifndef AGENT_CONTAINER_CONTAINER_CHOICE_H
#define AGENT_CONTAINER_CONTAINER_CHOICE_H

#include <jansson.h>
#include <stddef.h>

struct err;

/* `found`: the facts of container_found(); `image`: a canonical spec's. Returns the row of `found`, with the reason in
 * why[]; NULL: none fits, with a message. */
const json_t *container_choice(const json_t *found, const json_t *image, char *why, size_t size, struct err *err);

/* The key of the spec that a refusal is about. */
const char *container_choice_key(const json_t *image);

#endif
