/* SPDX-License-Identifier: Apache-2.0 */
/* rank_process.h - the process of a rank on this machine, found by its environment */
#ifndef CONTROLLER_WATCH_RANK_PROCESS_H
#define CONTROLLER_WATCH_RANK_PROCESS_H

#include <stdint.h>

struct err;

struct rank_process {
    int64_t pid;
    char  **env;   /* as the rank got it, ended by NULL */
    char   *block; /* of the texts */
};

/* The oldest process of this user that has JOBCTL_NONCE=nonce and RANK=rank: the rank's command itself.
 * ERR_NOT_FOUND: there is none here. Free with rank_process_fini(). */
int rank_process_find(struct rank_process *out, const char *nonce, int64_t rank, struct err *err);
void rank_process_fini(struct rank_process *p);

#endif
