/* SPDX-License-Identifier: Apache-2.0 */
/* programs.h - copies the programs that a host needs, once per version
 *
 * On the host they are in ${XDG_CACHE_HOME:-~/.cache}/jobctl/DIGEST/{bin,lib}, where DIGEST covers all their bytes:
 * each version has its own directory, so a running agent keeps its files. Files are copied into DIGEST.part, continuing
 * an earlier try, and verified there; then the directory is renamed.
 */
#ifndef CONTROLLER_SSH_PROGRAMS_H
#define CONTROLLER_SSH_PROGRAMS_H

#include <libssh/libssh.h>
#include <limits.h>
#include <stddef.h>

#include "engine/base/digest.h"

struct err;

enum { PROGRAMS = 5 };

struct program {
    char name[64];              /* "bin/jobctl-agent" */
    char path[PATH_MAX];        /* on this machine */
    char digest[DIGEST_TEXT];
    size_t size;
};

struct programs {
    struct program list[PROGRAMS];
    int  count;
    char digest[33];            /* of their names and digests, for a directory on the host */
};

/* The programs installed next to this one. */
int programs_find(struct programs *p, struct err *err);

/* `cache`: the absolute directory on the host. ERR_USAGE: the host cannot run the programs. */
int programs_send(const struct programs *p, ssh_session s, const char *host, const char *cache, struct err *err);

#endif
