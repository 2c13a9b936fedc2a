/* SPDX-License-Identifier: Apache-2.0 */
/* spec_file.h - the file that somebody submits: read, checked, and made into a request */
#ifndef CONTROLLER_CLI_SPEC_FILE_H
#define CONTROLLER_CLI_SPEC_FILE_H

#include <jansson.h>

struct call;
struct client;
struct err;

/* Values of the secrets that a spec names, from our environment; a new object, or NULL. */
json_t *spec_file_secrets(const json_t *names, struct err *err);

/* Read `file` ("-" is standard input), check it with `set`, and look up its secrets. *request is a
 * new body for POST /v1/jobs; *spec, if asked for, the canonical spec. On failure call->err is set,
 * and call->found holds all that is wrong with the file; no daemon is needed to find out that a file is wrong. */
int spec_file_request(struct call *call, const char *file, const char *const *set, int nset,
                      json_t **request, json_t **spec);

/* POST /v1/jobs. A spec may be wrong for the daemon alone: it looks at it later than we did. */
int spec_file_post(struct call *call, struct client *c, json_t **answer, const json_t *request);

#endif
