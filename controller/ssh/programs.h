/* SPDX-License-Identifier: Apache-2.0 */
/* programs.h - the programs that a host needs, brought there once per version
 *
 * On the host they lie in ${XDG_CACHE_HOME:-~/.cache}/jobctl/DIGEST/{bin,lib}, DIGEST being that of
 * all their bytes: another version has another directory, and the one that a living agent came from
 * stays. Files are sent into DIGEST.part, from where an earlier try has left off, read back there,
 * and the directory is renamed when it is whole.
 */
#ifndef CONTROLLER_SSH_PROGRAMS_H
#define CONTROLLER_SSH_PROGRAMS_H

#include <libssh/libssh.h>
#include <limits.h>
#include <stddef.h>

#include "agent/os/file_digest.h"

struct err;

enum { PROGRAMS = 4 };

struct program {
    char name[64];              /* "bin/jobctl-agent" */
    char path[PATH_MAX];        /* here */
    char digest[FILE_DIGEST];
    size_t size;
};

struct programs {
    struct program list[PROGRAMS];
    int  count;
    char digest[FILE_DIGEST];
};

/* Those beside this very program. */
int programs_find(struct programs *p, struct err *err);

/* `cache`: the absolute directory on the host. ERR_USAGE: the host cannot run them. */
int programs_send(const struct programs *p, ssh_session s, const char *host, const char *cache,
                  struct err *err);

#endif
