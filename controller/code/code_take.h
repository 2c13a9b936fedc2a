/* SPDX-License-Identifier: Apache-2.0 */
/* code_take.h - records a job's code where its files are, before the job is submitted
 *
 *   HOME/code/DIGEST/          the original (agent/code/code_tree.h), once for all jobs with the same files
 *   HOME/code/.tmp-...-job/    becomes jobs/ID/code (controller/job/job_code.h) when the job is stored:
 *     info.json                what was recorded, see below
 *     commit, diff.patch       controller/code/code_record.h
 *     manifest.json            a hard link to the original's; the original stays as long as a link exists
 *
 * info.json: {version, workdir, and where there is a repository: commit, branch, changed, diff_bytes, diff_cut, git;
 *             with a snapshot: snapshot: DIGEST, files, bytes, must, left_out: [{path, why}], left: their number}
 *
 * A process that is killed leaves at most one directory, which the next process removes.
 */
#ifndef CONTROLLER_CODE_CODE_TAKE_H
#define CONTROLLER_CODE_CODE_TAKE_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

enum { CODE_MAX_MIB = 200 };

struct code_wish {
    const char *home, *workdir;
    bool        snapshot;
    bool        must;       /* else a directory that is too large or missing only causes a note */
    int64_t     max_bytes;
};

struct code_taken {
    char    name[NAME_MAX + 1]; /* name of the directory in HOME/code; "": nothing to record */
    char    dir[PATH_MAX];      /* that directory */
    json_t *notes;              /* texts for the user */
    int     lock;               /* shared lock: no original is removed; -1 */
};

/* The limit: $JOBCTL_SNAPSHOT_MIB, else CODE_MAX_MIB. */
int64_t code_take_max(void);

/* -1: the snapshot cannot be taken; no part of it remains. */
int code_take(struct code_taken *t, const struct code_wish *wish, struct err *err);

/* Call after the job is stored, or was not: removes a snapshot that no job uses. */
void code_take_end(struct code_taken *t);

#endif
