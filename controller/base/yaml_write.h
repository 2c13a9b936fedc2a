/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_write.h - a JSON object as the text of a YAML file */
#ifndef CONTROLLER_BASE_YAML_WRITE_H
#define CONTROLLER_BASE_YAML_WRITE_H

#include <jansson.h>

struct err;

/* Texts of several lines are blocks; for free(). -1: out of memory. */
int yaml_write(char **text, const json_t *root, struct err *err);

#endif
