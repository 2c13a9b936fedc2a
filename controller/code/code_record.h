/* SPDX-License-Identifier: Apache-2.0 */
/* code_record.h - the git commit of a directory and the changes since, as files
 *
 *   DIR/commit        its 40 digits
 *   DIR/diff.patch    git diff HEAD: what tracked files have changed since, of the whole repository; mode 0600
 *
 * No failure here fails a submit: `info` has what could not be recorded, and why:
 *   commit, branch, changed: number of files, diff_bytes, diff_cut: true if the diff was too long; git: why not
 * In the diff are neither new files, nor the content of binary ones, nor that of submodules.
 */
#ifndef CONTROLLER_CODE_CODE_RECORD_H
#define CONTROLLER_CODE_CODE_RECORD_H

#include <jansson.h>
#include <stdbool.h>

enum { CODE_DIFF_BYTES = 4 * 1024 * 1024 };

#define CODE_COMMIT "commit"
#define CODE_DIFF   "diff.patch"

/* Adds to `info`: commit, branch, changed; or git. False: `workdir` is in no repository, or there is no git. */
bool code_record_look(json_t *info, const char *workdir);

/* Writes the files into `dir`, for an info with a commit. */
void code_record_write(json_t *info, const char *workdir, const char *dir);

#endif
