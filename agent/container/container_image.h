/* SPDX-License-Identifier: Apache-2.0 */
/* container_image.h - checks an image's name, and converts it for each runtime
 *
 * Pure: no clock, no I/O.
 * A name is [docker://][REGISTRY/]PATH[:TAG][@DIGEST], as in `docker pull`, or the path of a file: one that begins
 * with '/', "./", "../" or "~", or ends in .sif (apptainer, singularity) or .sqsh (enroot).
 */
#ifndef AGENT_CONTAINER_CONTAINER_IMAGE_H
#define AGENT_CONTAINER_CONTAINER_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

struct err;

enum { CONTAINER_IMAGE_NAME = 512 };

bool container_image_is_file(const char *image);

/* -1: not a name; the message locates the error, without a spec key. Files are not checked. */
int container_image_check(const char *image, struct err *err);

/* Removes "docker://" from a checked name. */
const char *container_image_short(const char *image);

/* With the registry: "busybox" is "docker.io/library/busybox:latest". */
void container_image_full(char out[CONTAINER_IMAGE_NAME], const char *image);

/* As enroot imports it: "docker://nvcr.io#nvidia/pytorch:24.05-py3". */
void container_image_enroot(char out[CONTAINER_IMAGE_NAME], const char *image);

/* The file of a pulled image: "docker.io+library+busybox,latest". Different names have different files. */
void container_image_file_name(char out[CONTAINER_IMAGE_NAME], const char *image);

#endif
