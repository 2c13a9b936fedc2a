/* SPDX-License-Identifier: Apache-2.0 */
/* body_check.h - checks the fields of a request's body: known, of the right type, none missing */
#ifndef CONTROLLER_HTTP_BODY_CHECK_H
#define CONTROLLER_HTTP_BODY_CHECK_H

#include <jansson.h>

struct err;

/* `fields` as in struct route (server.h); NULL: none. An error is an ERR_USAGE that names the field. */
int body_check(const json_t *body, const char *fields, struct err *err);

#endif
