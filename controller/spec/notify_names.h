/* SPDX-License-Identifier: Apache-2.0 */
/* notify_names.h - the names in `notify.to` of a spec, against the targets of config.yaml */
#ifndef CONTROLLER_SPEC_NOTIFY_NAMES_H
#define CONTROLLER_SPEC_NOTIFY_NAMES_H

#include <jansson.h>

struct err;

/* Each name of `to`, a list or NULL, is a target of config.yaml. */
int notify_names_check(const json_t *to, struct err *err);

#endif
