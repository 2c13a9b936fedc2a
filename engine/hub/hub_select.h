/* SPDX-License-Identifier: Apache-2.0 */
/* hub_select.h - which files of a repository a run needs, with the weights in one form only
 *
 *   a named file that file, its shards if it is an index, and the .json files next to it
 *   a named folder as for a repository that has only this folder
 *   a pipeline (model_index.json) the .json files at its top, and the folders in `parts`
 *   another repository its top folder if it has weights, else every folder
 *
 * From each such folder: .json files, tokenizers, and the weights in one form (weights_choice.h).
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_HUB_HUB_SELECT_H
#define ENGINE_HUB_HUB_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hub_file {
    const char *path;  /* in the repository: "vae/config.json" */
    int64_t     bytes;
    bool        wanted;
};

/* Sets `wanted` of each; returns how many are. `file`: of a hub_name; `parts`: "text_encoder,tokenizer", "": all. */
int hub_select(struct hub_file *list, int n, const char *file, const char *parts);

/* After hub_select(), judging by the names of existing files: is nothing missing? Needed are the named file, all
 * shards, at least one file of weights, or any file of the part "tokenizer". `why`: what is missing. */
bool hub_select_is_whole(const struct hub_file *list, int n, const char *file, const char *parts, char *why,
                         size_t room);

/* After hub_select(): the path to open in the repository, a file or folder; "": its top. */
void hub_select_target(char *out, size_t room, const struct hub_file *list, int n, const char *file);

#endif
