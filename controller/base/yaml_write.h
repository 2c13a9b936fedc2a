/* SPDX-License-Identifier: Apache-2.0 */
/* yaml_write.h - a tree (yaml.h) as the text of a file */
#ifndef CONTROLLER_BASE_YAML_WRITE_H
#define CONTROLLER_BASE_YAML_WRITE_H

struct err;
struct yaml_node;

/* Texts of several lines are blocks; for free(). -1: out of memory. */
int yaml_write(char **text, const struct yaml_node *root, struct err *err);

#endif
