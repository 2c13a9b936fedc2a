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

void hub_check(struct call *call, const json_t *request, json_t *spec, json_t *notes);

#endif
