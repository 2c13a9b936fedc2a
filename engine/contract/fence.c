/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - see fence.h */
#include "engine/contract/fence.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_seal.h"
#include "engine/base/safe_open.h"

enum { PATH_SIZE = 4096 + 32 };

void fence_of(char out[FENCE_TEXT], const json_t *lease)
{
    snprintf(out, FENCE_TEXT, "%lld %lld %lld %.40s", (long long)field_int(lease, "token", 0),
             (long long)field_int(lease, "pid", 0), (long long)field_int(lease, "start_time", 0),
             field_text(lease, "boot_id"));
}

void fence_holder(char *out, size_t size, const json_t *lease)
{
    const char *name = field_text(lease, "name"), *host = field_text(lease, "host");
    const char *home = field_text(lease, "home");
    size_t n = 0;
    if (name[0])
        n = (size_t)snprintf(out, size, "job %lld (%.60s) on ", (long long)field_int(lease, "job", 0), name);
    if (n < size)
        n += (size_t)snprintf(out + n, size - n, "%.100s", host[0] ? host : "another machine");
    if (n < size && home[0])
        snprintf(out + n, size - n, ", home %.200s", home);
    err_make_printable(out);
}

/* 1: *out is the file's; 0: there is none; -1: error. */
static int read_lease(json_t **out, const char *path, struct err *err)
{
    struct err why = {0};
    *out = safe_open_json(path, 0, &why);
    if (json_seal_broken(*out)) {
        json_decref(*out);
        *out = NULL;
        err_set(&why, ERR_DATA, "it is damaged");
    }
    if (*out)
        return 1;
    if (why.code == ERR_NOT_FOUND)
        return 0;
    return why.code == ERR_SYSTEM ? err_set_errno(err, errno, "cannot read the lease %s", path)
                                  : err_set(err, why.code, "%s is not a lease: %s", path, why.text);
}

/* Is the file of this token there, which its holder alone has made and removes at the end? */
static bool has_claim(const char *dir, long long token)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%.4095s/lease-%lld", dir, token);
    return access(path, F_OK) == 0;
}

/* A successor that has claimed the next token writes the lease file at once. */
static int check_claim(const char *dir, long long token, struct err *err)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof(path), "%.4095s/lease-%lld", dir, token + 1);
    const int fd = safe_open(path, O_RDONLY, NULL);
    if (fd < 0)
        return 0;
    close(fd);
    return err_set(err, ERR_CONFLICT, "%s was taken over by another job or machine", dir);
}

int fence_check(const char *dir, const char *fence, struct err *err)
{
    char path[PATH_SIZE], theirs[FENCE_TEXT], who[512];
    const long long own = strtoll(fence, NULL, 10);
    struct err why = {0};
    json_t *lease;
    snprintf(path, sizeof(path), "%.4095s/lease.json", dir);
    int rc = read_lease(&lease, path, &why);
    fence_of(theirs, lease);
    if (rc > 0 && (strtoll(theirs, NULL, 10) > own ||
                   (strtoll(theirs, NULL, 10) == own && strcmp(theirs, fence) != 0))) {
        fence_holder(who, sizeof(who), lease);
        rc = err_set(&why, ERR_CONFLICT, "%s was taken over by %s (lease %lld, this one had %lld)", dir, who,
                     strtoll(theirs, NULL, 10), own);
    }
    json_decref(lease);
    if (rc < 0 && why.code == ERR_DATA && has_claim(dir, own))
        rc = 0;         /* damaged: the holder writes it again at its next beat */
    if (rc < 0 && err)
        *err = why;
    return rc < 0 ? -1 : check_claim(dir, own, err);
}

int fence_guard(const char *dir, struct err *err)
{
    const char *fence = getenv("JOBCTL_LEASE");
    return fence && *fence ? fence_check(dir, fence, err) : 0;
}
