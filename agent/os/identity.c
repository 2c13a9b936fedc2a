/* SPDX-License-Identifier: Apache-2.0 */
/* identity.c - see identity.h */
#include "agent/os/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/json_seal.h"
#include "engine/base/safe_open.h"

static int read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return -1;
    out[n] = '\0';
    return 0;
}

/* The start time of a process, field 22 of /proc/PID/stat; -1: no such process, or a zombie. */
static int64_t start_time_of(int64_t pid)
{
    char path[64], text[1024], state;
    long long start;
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    if (read_text(path, text, sizeof(text)) < 0)
        return -1;
    const char *end = strrchr(text, ')');
    if (!end || sscanf(end + 1,
                       " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                       "%*d %lld",
                       &state, &start) != 2)
        return -1;
    return state == 'Z' || state == 'X' ? -1 : start;
}

static int read_boot_id(char *out, size_t size)
{
    if (read_text("/proc/sys/kernel/random/boot_id", out, size) < 0)
        return -1;
    out[strcspn(out, "\n")] = '\0';
    return 0;
}

int identity_self(struct identity *id, struct err *err)
{
    id->pid = getpid();
    id->start_time = start_time_of(id->pid);
    if (id->start_time < 0 || read_boot_id(id->boot_id, sizeof(id->boot_id)) < 0)
        return err_set(err, ERR_SYSTEM, "cannot read /proc about this process: %s", strerror(errno));
    return 0;
}

int identity_write(const struct identity *id, const char *run_dir, struct err *err)
{
    char path[4096], tmp[4096];
    int n = snprintf(path, sizeof(path), "%s/agent.json", run_dir);
    int m = snprintf(tmp, sizeof(tmp), "%s/agent.json.new", run_dir);
    if (n >= (int)sizeof(path) || m >= (int)sizeof(tmp))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    json_t *v = json_make("{s:I, s:s, s:I, s:s, s:I, s:I, s:I, s:s}", "pid", (json_int_t)id->pid,
                          "boot_id", id->boot_id, "start_time", (json_int_t)id->start_time, "nonce",
                          id->nonce, "job", (json_int_t)id->job, "attempt", (json_int_t)id->attempt,
                          "incarnation", (json_int_t)id->incarnation, "version", id->version);
    if (v && id->since > 0)
        json_object_set_new(v, "since", json_integer(id->since));
    if (v && id->origin[0])
        json_object_set_new(v, "origin", json_text(id->origin));
    int fd = safe_open(tmp, O_WRONLY | O_CREAT | O_TRUNC, NULL);
    int rc = v && fd >= 0 && json_seal(v) == 0 && json_file_put(v, fd, JSON_COMPACT) == 0 && fsync(fd) == 0 &&
                     rename(tmp, path) == 0
                 ? 0
                 : -1;
    if (rc < 0)
        err_set(err, ERR_SYSTEM, "cannot write '%s': %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    json_decref(v);
    return rc;
}

int identity_read(struct identity *id, const char *run_dir, struct err *err)
{
    char path[4096];
    if (snprintf(path, sizeof(path), "%s/agent.json", run_dir) >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    if (access(path, R_OK) < 0)
        return err_set(err, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "cannot read '%s': %s",
                       path, strerror(errno));
    struct err why = {0};
    json_t *v = safe_open_json(path, 0, &why);
    json_int_t pid, start, job, attempt, incarnation;
    const char *boot, *nonce, *version;
    const bool broken = json_seal_broken(v);
    int rc = v && !broken && json_unpack(v, "{s:I, s:s, s:I, s:s, s:I, s:I, s:I, s:s}", "pid", &pid, "boot_id",
                              &boot, "start_time", &start, "nonce", &nonce, "job", &job, "attempt",
                              &attempt, "incarnation", &incarnation, "version", &version) == 0
                 ? 0
                 : err_set(err, ERR_DATA, "'%s' is not an agent's identity: %s", path,
                           broken ? "it is damaged" : v ? "a field is missing or wrong" : why.text);
    if (rc == 0) {
        *id = (struct identity){.pid = pid,
                                .start_time = start,
                                .job = job,
                                .attempt = attempt,
                                .incarnation = incarnation,
                                .since = field_int(v, "since", 0)};
        snprintf(id->boot_id, sizeof(id->boot_id), "%s", boot);
        snprintf(id->nonce, sizeof(id->nonce), "%s", nonce);
        snprintf(id->version, sizeof(id->version), "%s", version);
        snprintf(id->origin, sizeof(id->origin), "%s", field_text(v, "origin"));
    }
    json_decref(v);
    return rc;
}

void identity_follow(struct identity *id, const struct identity *before)
{
    const bool rebooted = before->boot_id[0] && strcmp(before->boot_id, id->boot_id) != 0;
    id->since = rebooted ? id->start_time : before->since;
}

bool identity_is_of(const struct identity *id, const char *nonce, const char *origin)
{
    return strcmp(id->nonce, nonce) == 0 && (!id->origin[0] || !origin[0] || strcmp(id->origin, origin) == 0);
}

bool identity_alive(const struct identity *id)
{
    char boot[sizeof(id->boot_id)];
    return read_boot_id(boot, sizeof(boot)) == 0 && strcmp(boot, id->boot_id) == 0 &&
           start_time_of(id->pid) == id->start_time;
}
