/* SPDX-License-Identifier: Apache-2.0 */
/* run_dir.c - see run_dir.h */
#include "agent/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/err.h"

static int join(char *out, size_t size, const char *dir, const char *name, struct err *err)
{
    int n = snprintf(out, size, "%s/%s", dir, name);
    return n > 0 && (size_t)n < size ? 0 : err_set(err, ERR_USAGE, "the path %s is too long", dir);
}

static int boot_id_read(char *out, size_t size, struct err *err)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!f || !fgets(out, (int)size, f)) {
        if (f)
            fclose(f);
        return err_set(err, ERR_SYSTEM, "cannot read this machine's boot id: %m");
    }
    fclose(f);
    out[strcspn(out, "\n")] = 0;
    return 0;
}

/* Field 22; the name in field 2 may hold blanks and parentheses. -1: no such process. */
static int64_t start_time_of(int64_t pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    size_t n = fread(line, 1, sizeof(line) - 1, f);
    fclose(f);
    line[n] = 0;
    char *at = strrchr(line, ')');
    if (!at || at[1] != ' ' || at[2] == 'Z')    /* a zombie runs nothing any more */
        return -1;
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at, NULL, 10) : -1;
}

int run_identity_fill(struct run_identity *id, struct err *err)
{
    struct run_identity me = *id;
    if (gethostname(me.node, sizeof(me.node)) < 0)
        return err_set(err, ERR_SYSTEM, "cannot read this machine's name: %m");
    me.node[sizeof(me.node) - 1] = 0;
    if (boot_id_read(me.boot_id, sizeof(me.boot_id), err) < 0)
        return -1;
    me.pid = getpid();
    me.start_time = start_time_of(me.pid);
    if (me.start_time < 0)
        return err_set(err, ERR_SYSTEM, "cannot read /proc/%lld/stat", (long long)me.pid);
    *id = me;
    return 0;
}

int run_identity_write(const char *dir, const struct run_identity *id, struct err *err)
{
    char path[4096], beside[4096 + 8];
    if (join(path, sizeof(path), dir, RUN_DIR_IDENTITY, err) < 0)
        return -1;
    snprintf(beside, sizeof(beside), "%s.new", path);
    json_t *doc = json_pack("{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I}", "job",
                            (json_int_t)id->job, "attempt", (json_int_t)id->attempt, "nonce",
                            id->nonce, "node", id->node, "boot_id", id->boot_id, "pid",
                            (json_int_t)id->pid, "start_time", (json_int_t)id->start_time,
                            "incarnation", (json_int_t)id->incarnation);
    if (!doc)
        return err_set(err, ERR_MEMORY, "out of memory for %s", path);
    int rc = json_dump_file(doc, beside, JSON_COMPACT);
    json_decref(doc);
    if (rc < 0 || rename(beside, path) < 0)
        return err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
    return 0;
}

int run_identity_read(struct run_identity *id, const char *dir, struct err *err)
{
    char path[4096];
    if (join(path, sizeof(path), dir, RUN_DIR_IDENTITY, err) < 0)
        return -1;
    if (access(path, F_OK) < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "no agent ever ran in %s", dir);
    json_error_t where;
    json_t *doc = json_load_file(path, 0, &where);
    const char *nonce, *node, *boot;
    json_int_t job, attempt, pid, start, incarnation;
    if (!doc || json_unpack(doc, "{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I}", "job", &job,
                            "attempt", &attempt, "nonce", &nonce, "node", &node, "boot_id", &boot,
                            "pid", &pid, "start_time", &start, "incarnation", &incarnation) < 0) {
        json_decref(doc);
        return err_set(err, ERR_DATA, "%s does not name an agent", path);
    }
    *id = (struct run_identity){ .job = job, .attempt = attempt, .pid = pid, .start_time = start,
                                 .incarnation = incarnation };
    snprintf(id->nonce, sizeof(id->nonce), "%s", nonce);
    snprintf(id->node, sizeof(id->node), "%s", node);
    snprintf(id->boot_id, sizeof(id->boot_id), "%s", boot);
    json_decref(doc);
    return 0;
}

bool run_identity_alive(const struct run_identity *id)
{
    char boot[64];
    return boot_id_read(boot, sizeof(boot), NULL) == 0 && strcmp(boot, id->boot_id) == 0 &&
           id->pid > 0 && start_time_of(id->pid) == id->start_time;
}

int run_dir_lock(const char *dir, struct err *err)
{
    char path[4096];
    if (join(path, sizeof(path), dir, RUN_DIR_LOCK, err) < 0)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot open %s: %m", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        int code = errno;
        close(fd);
        errno = code;
        return code == EWOULDBLOCK
                   ? err_set(err, ERR_CONFLICT, "an agent lives in %s: it holds the lock", dir)
                   : err_set(err, ERR_SYSTEM, "cannot lock %s: %m", path);
    }
    return fd;
}

int run_dir_fence(const char *dir, struct err *err)
{
    char path[4096];
    if (join(path, sizeof(path), dir, RUN_DIR_FENCED, err) < 0)
        return -1;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot write %s: %m", path);
    close(fd);
    return 0;
}

bool run_dir_fenced(const char *dir)
{
    char path[4096];
    return join(path, sizeof(path), dir, RUN_DIR_FENCED, NULL) == 0 && access(path, F_OK) == 0;
}
