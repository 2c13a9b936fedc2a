/* SPDX-License-Identifier: Apache-2.0 */
/* host_cache.c - see host_cache.h */
#include "agent/attempt/host_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/attempt/spool.h"
#include "agent/code/code_tree.h"
#include "agent/os/run_dir.h"
#include "engine/base/tree.h"
#include "agent/wire/log_feed.h"

enum { DIGEST_CHARS = 32, VERSIONS_MAX = 256, OLD_S = HOST_CACHE_DAYS * 24 * 3600 };

/* --- programs --------------------------------------------------------------------------------- */

struct version {
    char    name[DIGEST_CHARS + 8];
    int64_t used_s;
};

/* DIGEST, or DIGEST.part of an unfinished upload. */
static bool is_version(const char *name)
{
    const size_t n = strspn(name, "0123456789abcdef");
    return n == DIGEST_CHARS && (!name[n] || strcmp(name + n, ".part") == 0);
}

/* Gets "CACHE/jobctl/DIGEST" from "CACHE/jobctl/DIGEST/bin/NAME". */
static bool version_of(char out[PATH_MAX], const char *program)
{
    if ((size_t)snprintf(out, PATH_MAX, "%s", program) >= PATH_MAX)
        return false;
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(out, '/');
        if (!slash || slash == out)
            return false;
        *slash = '\0';
    }
    return is_version(strrchr(out, '/') ? strrchr(out, '/') + 1 : out);
}

void host_cache_use(const char *program)
{
    char path[PATH_MAX];
    if (version_of(path, program))
        utimensat(AT_FDCWD, path, NULL, 0);
}

/* Does a process on this machine run a program of this directory? */
static bool is_running(const char *dir)
{
    const size_t n = strlen(dir);
    bool found = false;
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char link[300], exe[PATH_MAX];
        if (strspn(e->d_name, "0123456789") != strlen(e->d_name))
            continue;
        snprintf(link, sizeof(link), "/proc/%.200s/exe", e->d_name);
        ssize_t size = readlink(link, exe, sizeof(exe));
        found = size > (ssize_t)n && memcmp(exe, dir, n) == 0 && exe[n] == '/';
    }
    if (d)
        closedir(d);
    return found;
}

static int newer_first(const void *a, const void *b)
{
    const int64_t x = ((const struct version *)a)->used_s, y = ((const struct version *)b)->used_s;
    return (x < y) - (x > y);
}

static int list_versions(struct version *list, DIR *d)
{
    int n = 0;
    struct stat st;
    for (struct dirent *e; n < VERSIONS_MAX && (e = readdir(d));)
        if (is_version(e->d_name) &&
            fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
            snprintf(list[n].name, sizeof(list[n].name), "%.39s", e->d_name);
            list[n++].used_s = st.st_mtime;
        }
    return n;
}

static void tidy_versions(const char *program, int64_t now_s)
{
    static struct version list[VERSIONS_MAX];
    char cache[PATH_MAX], path[PATH_MAX + DIGEST_CHARS + 16];
    if (!version_of(cache, program))
        return;
    *strrchr(cache, '/') = '\0';
    DIR *d = opendir(cache);
    if (!d)
        return;
    const int n = list_versions(list, d);
    qsort(list, (size_t)n, sizeof(*list), newer_first);
    for (int i = HOST_CACHE_VERSIONS; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", cache, list[i].name);
        if (now_s - list[i].used_s > OLD_S && !is_running(path))
            tree_remove(dirfd(d), list[i].name, NULL);
    }
    closedir(d);
}

/* --- attempts --------------------------------------------------------------------------------- */

/* Files that an agent and its ranks write, by name. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {RUN_DIR_LOCK, RUN_DIR_FENCED, RUN_DIR_NOTICE,
                                        RUN_DIR_IDENTITY, RUN_DIR_SOCKET, RUN_DIR_SPOOL,
                                        "spec.json", "inspect.txt"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    const size_t digits = strncmp(name, "rank", 4) == 0 ? strspn(name + 4, "0123456789") : 0;
    return log_feed_carries(name) || (digits > 0 && strcmp(name + 4 + digits, ".flight") == 0);
}

/* Unix seconds of the newest file; of the directory itself if it is empty. */
static int64_t newest_in(DIR *d)
{
    struct stat st;
    int64_t newest = fstat(dirfd(d), &st) == 0 ? st.st_mtime : INT64_MAX;
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d));)
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_mtime > newest &&
            strcmp(e->d_name, "..") != 0)
            newest = st.st_mtime;
    return newest;
}

static int count_one(void *arg, const json_t *event)
{
    (void)event;
    ++*(int *)arg;
    return 1;
}

/* An agent shrinks a spool with only acknowledged events (agent/attempt/spool.h); whoever fenced
 * the directory of a dead agent has read its spool. */
static bool is_told(const char *dir)
{
    char path[PATH_MAX + 16];
    int events = 0;
    snprintf(path, sizeof(path), "%s/" RUN_DIR_SPOOL, dir);
    if (run_dir_fenced(dir) || access(path, F_OK) < 0)
        return true;
    return spool_read(path, 0, count_one, &events, NULL) == 0 && events == 0;
}

static void tidy_attempt(const char *dir, int64_t now_s)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    if (now_s - newest_in(d) > OLD_S && is_told(dir)) {
        int lock = run_dir_lock(dir, NULL); /* no agent can start here during the removal */
        rewinddir(d);
        for (struct dirent *e; lock >= 0 && (e = readdir(d));)
            if (is_ours(e->d_name))
                unlinkat(dirfd(d), e->d_name, 0);
        if (lock >= 0) {
            rmdir(dir);
            close(lock);
        }
    }
    closedir(d);
}

static void tidy_key(const char *key_dir, const char *run_dir, int64_t now_s)
{
    DIR *d = opendir(key_dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        char dir[PATH_MAX];
        const bool attempt = e->d_name[strspn(e->d_name, "0123456789")] == '\0';
        if (attempt &&
            (size_t)snprintf(dir, sizeof(dir), "%s/%s", key_dir, e->d_name) < sizeof(dir) &&
            strcmp(dir, run_dir) != 0)
            tidy_attempt(dir, now_s);
    }
    if (d)
        closedir(d);
    rmdir(key_dir); /* succeeds only if it is empty */
}

static void tidy_attempts(const char *host_cache, const char *run_dir, int64_t now_s)
{
    DIR *d = opendir(host_cache);
    for (struct dirent *e; d && (e = readdir(d));) {
        char dir[PATH_MAX];
        if (e->d_name[0] != '.' &&
            (size_t)snprintf(dir, sizeof(dir), "%s/%s", host_cache, e->d_name) < sizeof(dir))
            tidy_key(dir, run_dir, now_s);
    }
    if (d)
        closedir(d);
}

/* --- code ------------------------------------------------------------------------------------- */

/* Jobs of a controller on this machine have hard links of the manifests that they need. */
static bool is_linked(const char *dir)
{
    char path[PATH_MAX + 400];
    struct stat st;
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, dir);
    return lstat(path, &st) == 0 && st.st_nlink > 1;
}

static void tidy_code(const char *host_cache, int64_t now_s)
{
    char code[PATH_MAX], path[PATH_MAX + 300];
    struct stat st;
    snprintf(code, sizeof(code), "%.*s/code", (int)(strrchr(host_cache, '/') - host_cache), host_cache);
    DIR *d = opendir(code);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", code, e->d_name);
        if (is_version(e->d_name) && lstat(path, &st) == 0 && now_s - st.st_mtime > OLD_S && !is_linked(path))
            code_tree_remove(path, NULL);
    }
    if (d)
        closedir(d);
}

void host_cache_tidy(const char *program, const char *host_cache, const char *run_dir, int64_t now_s)
{
    tidy_versions(program, now_s);
    tidy_attempts(host_cache, run_dir, now_s);
    tidy_code(host_cache, now_s);
}
