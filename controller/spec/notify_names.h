/* SPDX-License-Identifier: Apache-2.0 */
/* notify_names.h - checks the names in a spec's `notify.to` against the targets in config.yaml */
#ifndef CONTROLLER_SPEC_NOTIFY_NAMES_H
#define CONTROLLER_SPEC_NOTIFY_NAMES_H

#include <jansson.h>

struct err;

/* Each name in `to`, a list or NULL, must be a target in config.yaml. */
int notify_names_check(const json_t *to, struct err *err);

#endif
