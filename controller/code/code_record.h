/* SPDX-License-Identifier: Apache-2.0 */
/* code_record.h - records a directory's git commit and later changes, as files
 *
 *   DIR/commit        its 40 digits
 *   DIR/diff.patch    git diff HEAD: changes of tracked files in the whole repository; mode 0600
 *
 * No failure here fails a submit; `info` has the result and what could not be recorded:
 *   commit, branch, changed: number of files, diff_bytes, diff_cut: true if the diff was too long; git: the reason if
 *   there is no commit
 * The diff does not include new files, nor the contents of binary files and submodules.
 */
#ifndef CONTROLLER_CODE_CODE_RECORD_H
#define CONTROLLER_CODE_CODE_RECORD_H

#include <jansson.h>
#include <stdbool.h>

enum { CODE_DIFF_BYTES = 4 * 1024 * 1024 };

#define CODE_COMMIT "commit"
#define CODE_DIFF   "diff.patch"

/* Adds commit, branch and changed to `info`, or else git. False: `workdir` is in no repository, or there is no git. */
bool code_record_look(json_t *info, const char *workdir);

/* Writes the files into `dir`, for an info with a commit. */
void code_record_write(json_t *info, const char *workdir, const char *dir);

#endif
