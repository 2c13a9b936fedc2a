/* SPDX-License-Identifier: Apache-2.0 */
/* machine_claims.c - see machine_claims.h */
#include "agent/machine/machine_claims.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/machine/machine_dir.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"
#include "engine/base/safe_open.h"

enum { CLAIMS_MOST = 4096 };

static bool starts(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

/* Does anybody hold its lock? */
static bool is_alive(const char *path)
{
    int fd = safe_open(path, O_RDONLY, NULL);
    const bool alive = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
    if (fd >= 0)
        close(fd);
    return alive;
}

/* ---- reading ---- */

static void add_name(json_t *claim, const char *dir, const char *file, uid_t uid)
{
    char name[MACHINE_DIR_NAME + 8];
    snprintf(name, sizeof(name), "name-%s", file + strlen("claim-"));
    json_t *text = machine_dir_read(dir, name, uid, NULL);
    if (json_is_string(text))
        json_object_set(claim, "name", text);
    json_decref(text);
}

static json_t *read_one(const char *dir, const char *file)
{
    char path[MACHINE_DIR_PATH], user[64];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    json_t *claim = is_alive(path) ? machine_dir_read(dir, file, (uid_t)-1, &st) : NULL;
    if (!json_is_object(claim)) {
        json_decref(claim);
        return NULL;
    }
    json_object_del(claim, "name");
    json_object_set_new(claim, "file", json_text(file));
    json_object_set_new(claim, "uid", json_integer((json_int_t)st.st_uid));
    json_object_set_new(claim, "user", json_text(machine_dir_user(user, sizeof(user), st.st_uid)));
    json_object_set_new(claim, "mine", json_boolean(st.st_uid == geteuid()));
    json_object_set_new(claim, "stale", json_boolean(llabs((long long)(time(NULL) - st.st_mtime)) >
                                                     MACHINE_CLAIMS_STALE_S));
    add_name(claim, dir, file, st.st_uid);
    return claim;
}

static int by_arrival(const void *pa, const void *pb)
{
    const json_t *const *a = pa, *const *b = pb;
    const int64_t x = field_int(*a, "arrived_ms", 0), y = field_int(*b, "arrived_ms", 0);
    return x < y ? -1 : x > y ? 1 : strcmp(field_text(*a, "file"), field_text(*b, "file"));
}

json_t *machine_claims_read(const char *dir)
{
    json_t **found = calloc(CLAIMS_MOST, sizeof(json_t *)), *out = json_array();
    DIR *d = opendir(dir);
    size_t n = 0;
    for (struct dirent *e; d && found && n < CLAIMS_MOST && (e = readdir(d));)
        if (starts(e->d_name, "claim-") && strlen(e->d_name) < MACHINE_DIR_NAME &&
            (found[n] = read_one(dir, e->d_name)))
            n++;
    if (d)
        closedir(d);
    if (n > 1)
        qsort(found, n, sizeof(*found), by_arrival);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(out, found[i]);
    free(found);
    return out;
}

/* ---- dead claims ---- */

static void bury(const char *dir, const char *file)
{
    char path[MACHINE_DIR_PATH];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    unlink(path);
    snprintf(path, sizeof(path), "%s/name-%s", dir, file + strlen("claim-"));
    unlink(path);
}

/* A file of this user that a killed agent left half made. */
static bool is_leftover(const char *path, const char *file)
{
    struct stat st;
    return starts(file, "new-") && lstat(path, &st) == 0 && st.st_uid == geteuid() &&
           time(NULL) - st.st_mtime > MACHINE_CLAIMS_STALE_S;
}

void machine_claims_sweep(const char *dir)
{
    char mine[64], path[MACHINE_DIR_PATH];
    DIR *d = opendir(dir);
    snprintf(mine, sizeof(mine), "claim-%lld-", (long long)geteuid());
    for (struct dirent *e; d && (e = readdir(d));) {
        if (strlen(e->d_name) >= MACHINE_DIR_NAME)
            continue;
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        struct stat st;
        if (starts(e->d_name, mine) && lstat(path, &st) == 0 && st.st_uid == geteuid() && !is_alive(path))
            bury(dir, e->d_name);
        else if (is_leftover(path, e->d_name))
            unlink(path);
    }
    if (d)
        closedir(d);
}

/* ---- for people ---- */

void machine_claims_text(char *out, size_t size, const json_t *claim)
{
    char when[32] = "";
    const time_t since = (time_t)field_int(claim, strcmp(field_text(claim, "state"), "holds") == 0 ? "since_s"
                                                                                                  : "arrived_s", 0);
    const time_t now = time(NULL);
    const char *name = field_text(claim, "name");
    struct tm then, today;
    gmtime_r(&since, &then);
    gmtime_r(&now, &today);
    strftime(when, sizeof(when), then.tm_yday == today.tm_yday && then.tm_year == today.tm_year
             ? "%H:%M UTC" : "%d %b %H:%M UTC", &then);
    snprintf(out, size, "%s since %s%s%.60s%s", field_text(claim, "user"), when, name[0] ? " (job " : "", name,
             name[0] ? ")" : "");
    err_make_printable(out);
}
