/* SPDX-License-Identifier: Apache-2.0 */
/* spec_file.h - reads and checks a spec file and builds the submit request */
#ifndef CONTROLLER_SUBMIT_SPEC_FILE_H
#define CONTROLLER_SUBMIT_SPEC_FILE_H

#include <jansson.h>
#include <stdbool.h>

struct call;
struct client;
struct err;

/* The values of a spec's secrets from our environment, else from that of the far host; a new object, or NULL. */
json_t *spec_file_secrets(const json_t *names, struct err *err);

/* The overrides of --set, and that of --after, which `after` holds; returns their number, or -1. */
enum { AFTER_TEXT = 1024 };
int spec_file_set(struct call *call, const char **set, char after[AFTER_TEXT]);

/* True if an argument FILE|JOB means a file, even a missing one. */
bool spec_file_is(const char *word);

/* Reads `file` ("-" is standard input), checks it with `set`, and looks up its secrets. *request
 * is a new body for POST /v1/jobs; *spec, if not NULL, receives the canonical spec. On failure
 * call->err is set and call->found lists all mistakes of the file. Needs no daemon. */
int spec_file_request(struct call *call, const char *file, const char *const *set, int nset,
                      json_t **request, json_t **spec);

/* The same for a text that messages call `file`; the directory of `file` is the base of relative paths. */
int spec_file_text_request(struct call *call, const char *text, const char *file, const char *const *set, int nset,
                           json_t **request, json_t **spec);

/* POST /v1/jobs. The daemon does not parse the spec again, but may refuse it because no machine fits. */
int spec_file_post(struct call *call, struct client *c, json_t **answer, const json_t *request);

#endif
