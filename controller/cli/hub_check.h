/* SPDX-License-Identifier: Apache-2.0 */
/* hub_check.h - the models of a hub that a spec names: are they there, and which commit is meant
 *
 * A branch or tag is replaced by its commit, in the spec that is submitted: all attempts of a job train from the same
 * weights.  What the hub refuses, and what is missing without network where the job runs here, is a mistake; how much
 * will be downloaded is a note.
 */
#ifndef CONTROLLER_CLI_HUB_CHECK_H
#define CONTROLLER_CLI_HUB_CHECK_H

#include <jansson.h>

struct call;

/* Takes a mistake of a key. */
typedef void hub_check_refuse(struct call *call, const json_t *request, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

void hub_check(struct call *call, const json_t *request, json_t *spec, json_t *notes, hub_check_refuse *refuse);

#endif
