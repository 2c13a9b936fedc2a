/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h - compares the cache of a hub with the hub, and downloads what the cache lacks
 *
 * A name with a commit whose files are all in the cache needs no network. For a branch or tag, the hub is asked for the
 * commit; if that fails, the cached commit is used.
 */
#ifndef AGENT_FETCH_FETCH_H
#define AGENT_FETCH_FETCH_H

#include <jansson.h>
#include <limits.h>

#include "engine/hub/hub_name.h"

struct err;
struct fetch_http;
struct fetch_list;
struct progress;

enum fetch_state {
    FETCH_THERE,   /* all files are in the cache */
    FETCH_MISSING, /* some must be downloaded, and the hub has them */
    FETCH_ABSENT,  /* some are missing, and there is no network, or HF_HUB_OFFLINE is set */
    FETCH_REFUSED  /* the hub has no such repository or file, or refuses access */
};

struct fetch_view {
    enum fetch_state state;
    char    commit[HUB_COMMIT];      /* "": not known */
    char    pinned[HUB_NAME_TEXT];   /* the name at this commit */
    char    path[PATH_MAX];          /* FETCH_THERE: the path to open */
    int     files, missing;          /* needed files, missing files */
    int64_t bytes, missing_bytes;
    char    text[504];               /* one sentence */
};

/* *list: of FETCH_MISSING, for fetch_get(); zeros else. Errors are those of this machine; errors of the network or the
 * hub are in the view. `why`: the error of FETCH_ABSENT or FETCH_REFUSED. */
int fetch_look(struct fetch_view *out, struct fetch_list *list, struct fetch_http *h, const struct hub_name *n,
               const char *parts, struct err *why, struct err *err);

/* Downloads what is missing; the view becomes that of FETCH_THERE. */
int fetch_get(struct fetch_view *v, const struct fetch_list *list, struct fetch_http *h, const struct hub_name *n,
              const char *parts, struct progress *agent, struct err *err);

/* {state: "there"|"missing"|"absent"|"refused", commit, pinned, path, files, missing_files,
 * bytes, missing_bytes, text} */
json_t *fetch_json(const struct fetch_view *v);

#endif
