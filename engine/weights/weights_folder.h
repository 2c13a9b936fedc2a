/* SPDX-License-Identifier: Apache-2.0 */
/* weights_folder.h - which file of a directory has a model's weights */
#ifndef ENGINE_WEIGHTS_WEIGHTS_FOLDER_H
#define ENGINE_WEIGHTS_WEIGHTS_FOLDER_H

#include <limits.h>

struct err;

/* *file: an index of shards, or the one file with weights, in `dir`, or in its folder `part` if it has a
 * model_index.json. ERR_DATA: none, or several. */
int weights_folder_find(char file[PATH_MAX], const char *dir, const char *part, struct err *err);

#endif
