/* SPDX-License-Identifier: Apache-2.0 */
/* hub_pin.h - the models of a hub that a spec names: are they there, and which commit is meant
 *
 * A branch or tag is replaced by its commit, in the spec that becomes a job, whoever submits it: jobctl, another client
 * of the HTTP API, or an edit.  All attempts of a job train from the same weights.  What the hub refuses, and what is
 * missing without network where the job runs here, is a mistake; how much will be downloaded is a note.
 */
#ifndef CONTROLLER_REMOTE_HUB_PIN_H
#define CONTROLLER_REMOTE_HUB_PIN_H

#include <jansson.h>
#include <stdbool.h>

/* Takes a mistake of a key. */
typedef void hub_pin_refuse(void *arg, const char *key, const char *text);

/* Changes `spec`, which is canonical, and appends to `notes`. `environment`: variables of whoever submits, beside our
 * own, or NULL. `plan`: what is missing without network is a note. Takes as long as a hub that does not answer.
 * Returns whether something is still to be downloaded here. */
bool hub_pin(json_t *spec, const json_t *environment, bool plan, json_t *notes, hub_pin_refuse *refuse, void *arg);

/* Of the environment and the secrets of a submit: what decides about a hub, and its token; a new object. With an
 * environment our own variables of this kind are empty in it. */
json_t *hub_pin_environment(const json_t *environment, const json_t *secrets);

#endif
