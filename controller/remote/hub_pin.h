/* SPDX-License-Identifier: Apache-2.0 */
/* hub_pin.h - checks that the hub models named by a spec exist, and pins their commits
 *
 * A branch or tag is replaced by its commit in the spec that becomes a job, for submits by jobctl, by other HTTP
 * clients, and for edits.  All attempts of a job train from the same weights.  A refusal by the hub is a mistake, and
 * so is a file that is missing without network if the job runs here; the download size is a note.
 */
#ifndef CONTROLLER_REMOTE_HUB_PIN_H
#define CONTROLLER_REMOTE_HUB_PIN_H

#include <jansson.h>
#include <stdbool.h>

/* Takes a mistake of a key. */
typedef void hub_pin_refuse(void *arg, const char *key, const char *text);

/* Changes `spec`, which is canonical, and appends to `notes`. `environment`: variables of the submitter, in addition
 * to ours, or NULL. `plan`: what is missing without network is a note. May take until the hub's time limit. Returns
 * whether something must still be downloaded here. */
bool hub_pin(json_t *spec, const json_t *environment, bool plan, json_t *notes, hub_pin_refuse *refuse, void *arg);

/* The variables of a submit's environment and secrets that select the hub and its token; a new object. If an
 * environment is given, our own variables of this kind are set to empty in it. */
json_t *hub_pin_environment(const json_t *environment, const json_t *secrets);

#endif
