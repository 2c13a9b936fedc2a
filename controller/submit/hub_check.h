/* SPDX-License-Identifier: Apache-2.0 */
/* hub_check.h - the models of a hub that a spec names, at the place where they are written (hub_pin.h)
 *
 * A request with `plan` (cmd_plan.c) gets a note where a file is missing without network, and the command that
 * downloads all.
 */
#ifndef CONTROLLER_SUBMIT_HUB_CHECK_H
#define CONTROLLER_SUBMIT_HUB_CHECK_H

#include <jansson.h>

struct call;

/* Takes a mistake of a key. */
typedef void hub_check_refuse(struct call *call, const json_t *request, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

void hub_check(struct call *call, const json_t *request, json_t *spec, json_t *notes, hub_check_refuse *refuse);

#endif
