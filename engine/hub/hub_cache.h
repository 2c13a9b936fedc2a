/* SPDX-License-Identifier: Apache-2.0 */
/* hub_cache.h - the cache of Hugging Face hub files shared by all of a user's programs: read-only, no network
 *
 *   $HF_HUB_CACHE, or $HF_HOME/hub, or $XDG_CACHE_HOME/huggingface/hub, or ~/.cache/huggingface/hub
 *     models--OWNER--REPO/refs/REV                 the commit of this branch or tag at the last lookup
 *     models--OWNER--REPO/snapshots/COMMIT/FILE    a link to a blob (or the file itself)
 *     models--OWNER--REPO/blobs/DIGEST             sha256 of a large file, sha1 of git for a small one
 *     .locks/models--OWNER--REPO/DIGEST.lock       held by the process that downloads a blob
 *
 * It is filled by jobctl-fetch (agent/fetch) and by other programs with this layout.
 */
#ifndef ENGINE_HUB_HUB_CACHE_H
#define ENGINE_HUB_HUB_CACHE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/hub/hub_name.h"

struct err;

/* ERR_USAGE: no variable names a place, or the path is too long. */
int hub_cache_dir(char dir[PATH_MAX], struct err *err);
/* $HF_HOME or its default: the place of the token. */
int hub_cache_home(char dir[PATH_MAX], struct err *err);
/* "CACHE/models--OWNER--REPO/PART"; `part` "": the directory itself. */
int hub_cache_place(char path[PATH_MAX], const struct hub_name *n, const char *part, struct err *err);
/* HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE */
bool hub_cache_is_offline(void);

/* The commit of the name's revision in the cache; false: unknown. */
bool hub_cache_commit(char commit[HUB_COMMIT], const struct hub_name *n);

/* The path to open for a name whose files are all in the cache (hub_select.h). ERR_NOT_FOUND: a file is missing; the
 * message names it and the command that downloads it. */
int hub_cache_find(char path[PATH_MAX], const struct hub_name *n, const char *parts, struct err *err);

/* The total size of its files. */
struct hub_cache_size {
    int     files;
    int64_t bytes;
};
int hub_cache_find_size(char path[PATH_MAX], struct hub_cache_size *size, const struct hub_name *n, const char *parts,
                        struct err *err);

/* The same for a name; any other text is a path and returned as it is. */
int hub_cache_open(char path[PATH_MAX], const char *text, const char *parts, struct err *err);

#endif
