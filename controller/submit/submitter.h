/* SPDX-License-Identifier: Apache-2.0 */
/* submitter.h - the machine that a job is submitted from: this one, or the far host of -H
 *
 * A spec is checked against its environment, directory, config.yaml and files; the spec's text, the names in its
 * messages and the values of secrets come from the user's machine. On a far host relative paths of a spec begin in the
 * login's directory.
 */
#ifndef CONTROLLER_SUBMIT_SUBMITTER_H
#define CONTROLLER_SUBMIT_SUBMITTER_H

#include <jansson.h>
#include <stddef.h>

struct call;
struct diagnostics;
struct err;

/* Where relative paths begin. */
int submitter_directory(char *out, size_t size, struct err *err);

/* Its environment, for a job that runs in the submitter's environment; a new object. Values that are not UTF-8 are left
 * out, with a note. NULL with `err`: the far host did not send it. */
json_t *submitter_environment(struct err *err);

/* A variable of the far host; NULL: none, or there is no far host. */
const char *submitter_variable(const char *name);

/* The texts of --set as a new list, for a request. */
json_t *submitter_set(const char *const *set, int nset);

/* As jobspec_parse(). */
int submitter_parse(json_t **spec, const char *text, const char *file, const char *base, const char *const *set,
                    int nset, struct diagnostics *found, struct err *err);

/* As local_check(), on the far host. */
int submitter_check(struct call *call, const json_t *request, json_t *spec, json_t *notes);

/* The far host records a job's code there, as submit_code_take() does here: {name, notes}. A snapshot that no job has
 * taken is dropped by submitter_code_end(), or when this process ends. */
int submitter_code(json_t **answer, struct call *call, const json_t *request, const json_t *spec);
void submitter_code_end(void);

/* The absolute path of a directory, without symbolic links; out: PATH_MAX. */
int submitter_real_path(char *out, const char *path, struct err *err);

#endif
