/* SPDX-License-Identifier: Apache-2.0 */
/* control_group.c - see control_group.h */
#include "agent/ranks/control_group.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/safe_open.h"

#define NAME "/jobctl-"

static char *shared; /* the path, in memory of the agent and its guardian; NULL: none */

void control_group_share(void)
{
    void *p = mmap(NULL, CONTROL_GROUP_PATH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = p == MAP_FAILED ? NULL : p;
}

/* The path of this process in the unified hierarchy. */
static bool own_path(char path[PATH_MAX])
{
    char line[PATH_MAX];
    FILE *f = fopen("/proc/self/cgroup", "re");
    path[0] = '\0';
    while (f && !path[0] && fgets(line, sizeof(line), f))
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(path, PATH_MAX, "%s", line + 3);
        }
    if (f)
        fclose(f);
    return path[0] != '\0';
}

/* Calls `use` with the place of `path` in each mount of the hierarchy, until it returns true. */
static bool try_places(const char *path, char out[CONTROL_GROUP_PATH], bool (*use)(char out[CONTROL_GROUP_PATH]))
{
    char line[3 * PATH_MAX], root[PATH_MAX], mount[PATH_MAX];
    FILE *f = fopen("/proc/self/mountinfo", "re");
    bool used = false;
    while (f && !used && fgets(line, sizeof(line), f)) {
        if (!strstr(line, " - cgroup2 ") || sscanf(line, "%*d %*d %*s %4095s %4095s", root, mount) != 2)
            continue;
        const size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
        if (strncmp(path, root, n) != 0)
            continue;
        snprintf(out, CONTROL_GROUP_PATH, "%s%s", mount, strcmp(path + n, "/") == 0 ? "" : path + n);
        used = use(out);
    }
    if (f)
        fclose(f);
    return used;
}

/* Makes a group below `out`, which becomes its path. */
static bool make_below(char out[CONTROL_GROUP_PATH])
{
    uint64_t random;
    const size_t n = strlen(out);
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random) || n > PATH_MAX)
        return false;
    snprintf(out + n, CONTROL_GROUP_PATH - n, NAME "%016llx", (unsigned long long)random);
    return mkdir(out, 0755) == 0;
}

static bool is_writable(char out[CONTROL_GROUP_PATH])
{
    return access(out, W_OK) == 0;
}

static int file_of(char out[PATH_MAX], const char *run_dir)
{
    return snprintf(out, PATH_MAX, "%s/cgroup", run_dir) < PATH_MAX ? 0 : -1;
}

/* Without the file nobody could find the group again. */
static bool keep_path(const char *run_dir, const char *path)
{
    char file[PATH_MAX];
    const size_t n = strlen(path);
    const int fd = file_of(file, run_dir) < 0 ? -1 : safe_open(file, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    const bool kept = fd >= 0 && write(fd, path, n) == (ssize_t)n;
    if (fd >= 0)
        close(fd);
    return kept;
}

static void read_path(char out[CONTROL_GROUP_PATH], const char *run_dir)
{
    char file[PATH_MAX];
    FILE *f = file_of(file, run_dir) < 0 ? NULL : safe_open_stream(file, NULL);
    out[f ? fread(out, 1, CONTROL_GROUP_PATH - 1, f) : 0] = '\0';
    if (f)
        fclose(f);
    const char *last = strrchr(out, '/');
    if (out[0] != '/' || strncmp(last, NAME, strlen(NAME)) != 0)
        out[0] = '\0'; /* not of ours: a rank may have written there */
}

void control_group_find(char out[CONTROL_GROUP_PATH], const char *run_dir)
{
    if (shared && shared[0])
        snprintf(out, CONTROL_GROUP_PATH, "%s", shared);
    else
        read_path(out, run_dir);
}

static int open_or_make(char path[CONTROL_GROUP_PATH], const char *run_dir)
{
    char own[PATH_MAX];
    control_group_find(path, run_dir);
    int fd = path[0] ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd >= 0 || !own_path(own) || !try_places(own, path, make_below))
        return fd;
    fd = keep_path(run_dir, path) ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0)
        rmdir(path);
    return fd;
}

int control_group_open(const char *run_dir)
{
    char path[CONTROL_GROUP_PATH];
    const int fd = open_or_make(path, run_dir);
    if (fd >= 0 && shared)
        snprintf(shared, CONTROL_GROUP_PATH, "%s", path);
    return fd;
}

int control_group_outside(void)
{
    char own[PATH_MAX], path[CONTROL_GROUP_PATH];
    char *last = own_path(own) ? strrchr(own, '/') : NULL;
    if (!last || strncmp(last, NAME, strlen(NAME)) != 0)
        return -1;
    last[last == own] = '\0';
    return try_places(own, path, is_writable) ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
}

void control_group_join(int group)
{
    const int fd = openat(group, "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, "0", 1) < 0) {
        /* The process stays where it is. */
    }
    close(fd);
}

int control_group_members(const char *path, pid_t *pids, int most)
{
    char file[CONTROL_GROUP_PATH + 20];
    int n = 0, pid;
    snprintf(file, sizeof(file), "%s/cgroup.procs", path);
    FILE *f = path[0] ? fopen(file, "re") : NULL;
    while (f && n < most && fscanf(f, "%d", &pid) == 1)
        pids[n++] = pid;
    if (f)
        fclose(f);
    return f ? n : -1;
}

void control_group_kill(const char *path, int members)
{
    char file[CONTROL_GROUP_PATH + 20];
    struct stat st;
    pid_t pids[1024];
    if (stat(path, &st) < 0 || st.st_nlink > 2 || control_group_members(path, pids, 1024) != members)
        return;
    snprintf(file, sizeof(file), "%s/cgroup.kill", path);
    const int fd = open(file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* Linux before 5.14 */
    if (write(fd, "1", 1) < 0) {
        /* Each was sent SIGKILL by itself. */
    }
    close(fd);
}

void control_group_remove(const char *run_dir)
{
    char path[CONTROL_GROUP_PATH];
    control_group_find(path, run_dir);
    if (path[0])
        rmdir(path);
}
