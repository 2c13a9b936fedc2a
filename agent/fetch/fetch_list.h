/* SPDX-License-Identifier: Apache-2.0 */
/* fetch_list.h - the files of a repository on a hub at one commit: names, sizes, digests */
#ifndef AGENT_FETCH_FETCH_LIST_H
#define AGENT_FETCH_FETCH_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "agent/fetch/fetch_digest.h"
#include "engine/hub/hub_name.h"
#include "engine/hub/hub_select.h"

struct err;
struct fetch_http;

struct fetch_list {
    char             commit[HUB_COMMIT];
    struct hub_file *file;                      /* paths are those of the list */
    char           (*digest)[FETCH_DIGEST_TEXT]; /* of each file */
    int              n;
};

/* Asks the hub for the present commit of the name's revision; `patient`: retries if the network fails. Errors: those
 * of fetch_http_get(), and ERR_DATA: the answer is not a list. */
int fetch_list_ask(struct fetch_list *out, struct fetch_http *h, const struct hub_name *n, bool patient,
                   struct err *err);
void fetch_list_free(struct fetch_list *l); /* accepts a zeroed list */

#endif
