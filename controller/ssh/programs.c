/* SPDX-License-Identifier: Apache-2.0 */
/* programs.c - see programs.h */
#include "controller/ssh/programs.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libssh/sftp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "controller/ssh/host_command.h"
#include "controller/ssh/login.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"

enum {
    PIECE = 200 * 1024, /* a server accepts 256 KiB per message; each is acknowledged */
    TRIES = 25,         /* another process may be sending the same files */
    PAUSE_MS = 200
};

static const double MIB = 1 << 20;

static int add(struct programs *p, const char *root, const char *name, bool needed, struct err *err)
{
    struct program *q = &p->list[p->count];
    struct stat st;
    int64_t bytes;
    snprintf(q->name, sizeof(q->name), "%s", name);
    if ((size_t)snprintf(q->path, sizeof(q->path), "%s/%s", root, name) >= sizeof(q->path))
        return err_set(err, ERR_SYSTEM, "the path of this program is too long");
    if (stat(q->path, &st) < 0) {
        if (!needed)
            return 0;
        return err_set(err, ERR_SYSTEM, "cannot find '%s', which a host needs: %s", q->path, strerror(errno));
    }
    q->size = (size_t)st.st_size;
    p->count++;
    return digest_file(q->digest, &bytes, q->path, err);
}

int programs_find(struct programs *p, struct err *err)
{
    static const struct { const char *name; bool needed; } rows[PROGRAMS] = {
        {"bin/jobctl-agent", true}, {"bin/jobctl-train", true}, {"bin/jobctl-fetch", false},
        {"lib/libjobctl_ncclprof.so", false}, {"lib/libjobctl_cuda.so", false},
    };
    char root[PATH_MAX], all[PROGRAMS * (sizeof(p->list[0].name) + DIGEST_TEXT)] = "";
    *p = (struct programs){0};
    ssize_t n = readlink("/proc/self/exe", root, sizeof(root) - 1);
    root[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(root, '/');
        if (!slash)
            return err_set(err, ERR_SYSTEM, "cannot find the path of this program");
        *slash = '\0';
    }
    for (int i = 0; i < PROGRAMS; i++)
        if (add(p, root, rows[i].name, rows[i].needed, err) < 0)
            return -1;
    for (int i = 0; i < p->count; i++) {
        strcat(all, p->list[i].name);
        strcat(all, p->list[i].digest);
    }
    const XXH128_hash_t h = XXH3_128bits(all, strlen(all));
    snprintf(p->digest, sizeof(p->digest), "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    return 0;
}

/* ---- can the host run them? ---- */

static const char *machine_name(int machine)
{
    switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "arm64";
    case EM_PPC64: return "ppc64";
    case EM_386: return "32-bit x86";
    case EM_RISCV: return "RISC-V";
    default: return "another kind";
    }
}

/* The ELF header of its shell gives the processor type. */
static int check_machine(sftp_session sftp, const struct program *agent, const char *host, struct err *err)
{
    unsigned char here[EI_NIDENT + 4], there[sizeof(here)];
    FILE *f = fopen(agent->path, "re");
    bool known = f && fread(here, sizeof(here), 1, f) == 1;
    if (f)
        fclose(f);
    sftp_file shell = sftp_open(sftp, "/bin/sh", O_RDONLY, 0);
    known = known && shell && sftp_read(shell, there, sizeof(there)) == (ssize_t)sizeof(there) &&
            memcmp(there, ELFMAG, SELFMAG) == 0;
    if (shell)
        sftp_close(shell);
    if (!known)
        return 0; /* unknown: starting the agent will tell */
    int ours = here[18] | here[19] << 8, its = there[18] | there[19] << 8;
    if (ours != its || here[EI_CLASS] != there[EI_CLASS])
        return err_set(err, ERR_USAGE, "%s is %s, but this jobctl is built for %s; submit from "
                       "a machine of the same type", host, machine_name(its),
                       machine_name(ours));
    return 0;
}

/* ---- sending ---- */

static bool is_there(sftp_session sftp, const char *path)
{
    sftp_attributes a = sftp_stat(sftp, path);
    sftp_attributes_free(a);
    return a != NULL;
}

/* What its file system says of a path that cannot be made or written; "": nothing. */
static void look_why(char *out, size_t size, sftp_session sftp, const char *path, size_t bytes)
{
    char dir[PATH_MAX];
    sftp_attributes link = is_there(sftp, path) ? NULL : sftp_lstat(sftp, path);
    snprintf(dir, sizeof(dir), "%s", path);
    while (!is_there(sftp, dir) && strrchr(dir, '/') > dir)
        *strrchr(dir, '/') = '\0';
    sftp_statvfs_t v = sftp_statvfs(sftp, dir);
    const double room = v ? (double)v->f_bavail * (double)v->f_frsize : 0;
    out[0] = '\0';
    if (link)
        snprintf(out, size, "it is a dangling link");
    else if (v && (v->f_flag & SSH_FXE_STATVFS_ST_RDONLY))
        snprintf(out, size, "its file system is read-only");
    else if (v && (room < (double)bytes || (v->f_files > 0 && v->f_favail == 0)))
        snprintf(out, size, "its file system is full: %.1f MiB are needed, %.1f MiB are free", (double)bytes / MIB,
                 room / MIB);
    sftp_attributes_free(link);
    if (v)
        sftp_statvfs_free(v);
}

static int set_unusable(struct err *err, const char *host, const char *path, const char *why)
{
    return err_set(err, ERR_USAGE, "%s cannot store jobctl's programs: %.200s: %s; fix this, or set XDG_CACHE_HOME for "
                   "logins there to a directory from which programs can run", host, path, why);
}

/* ERR_USAGE: a retry does not help; else another process may have been at the same files, or there is a quota. */
static int not_made(sftp_session sftp, const char *host, const char *path, size_t bytes, struct err *err)
{
    const int code = sftp_get_error(sftp);
    char why[120];
    look_why(why, sizeof(why), sftp, path, bytes);
    if (!why[0] && code == SSH_FX_PERMISSION_DENIED)
        snprintf(why, sizeof(why), "permission denied");
    if (why[0])
        return set_unusable(err, host, path, why);
    return err_set(err, ERR_SYSTEM, "cannot write %s on %s (sftp error %d): over a quota?", path, host, code);
}

static int make_dirs(sftp_session sftp, const char *host, const char *path, struct err *err)
{
    char part[PATH_MAX];
    snprintf(part, sizeof(part), "%s", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = '\0';
        if (sftp_mkdir(sftp, part, 0700) < 0 && !is_there(sftp, part)) {
            sftp_mkdir(sftp, part, 0700);   /* for its error */
            return not_made(sftp, host, part, 0, err);
        }
        *p = was;
        if (!was)
            return 0;
    }
}

/* Bytes of the file already there; a longer file is sent again. */
static size_t have(sftp_session sftp, const char *path, size_t size)
{
    sftp_attributes a = sftp_stat(sftp, path);
    size_t n = a ? (size_t)a->size : 0;
    sftp_attributes_free(a);
    return n <= size ? n : 0;
}

static int send_bytes(sftp_file to, FILE *from, const char *host, bool *refused, struct err *err)
{
    static char bytes[PIECE];
    size_t n;
    while ((n = fread(bytes, 1, sizeof(bytes), from)) > 0) {
        login_deadline(host, LOGIN_STEP_S);
        *refused = sftp_write(to, bytes, n) != (ssize_t)n;
        if (*refused)
            return -1;
    }
    return ferror(from) ? err_set(err, ERR_SYSTEM, "cannot read a program: %s", strerror(errno)) : 0;
}

static int send_file(sftp_session sftp, const struct program *p, const char *host,
                     const char *part, bool anew, struct err *err)
{
    char path[PATH_MAX + 80];
    snprintf(path, sizeof(path), "%s/%s", part, p->name);
    size_t at = anew ? 0 : have(sftp, path, p->size);
    if (at == p->size)
        return 0;
    FILE *from = fopen(p->path, "re");
    sftp_file to = sftp_open(sftp, path, O_WRONLY | O_CREAT | (at ? 0 : O_TRUNC), 0700);
    int rc = -1;
    bool refused = from && !to;
    if (!from)
        err_set(err, ERR_SYSTEM, "cannot read '%s': %s", p->path, strerror(errno));
    else if (to && fseek(from, (long)at, SEEK_SET) == 0 && sftp_seek64(to, at) == 0)
        rc = send_bytes(to, from, host, &refused, err);
    if (refused)
        not_made(sftp, host, path, p->size - have(sftp, path, p->size), err);
    if (to && sftp_close(to) != SSH_OK)
        rc = err_set(err, ERR_SYSTEM, "%s did not save %s", host, path);
    if (refused && to && err->code == ERR_USAGE)
        sftp_unlink(sftp, path);    /* not to fill the disk of a host that cannot be used */
    if (from)
        fclose(from);
    return rc;
}

/* The agent verifies the files: this needs no other program on the host. */
static int read_back(const struct programs *p, ssh_session s, const char *host, const char *part,
                     bool *same, struct err *err)
{
    char command[PROGRAMS * 128 + PATH_MAX], said[4096], wrong[1024], expected[4096] = "";
    int status;
    size_t at = (size_t)snprintf(command, sizeof(command),
                                 "exec sh -c 'cd \"%s\" && exec bin/jobctl-agent digest", part);
    for (int i = 0; i < p->count; i++) {
        at += (size_t)snprintf(command + at, sizeof(command) - at, " %s", p->list[i].name);
        strcat(expected, p->list[i].digest);
        strcat(expected, "\n");
    }
    snprintf(command + at, sizeof(command) - at, "'");
    if (host_command_run(s, command, said, sizeof(said), wrong, sizeof(wrong), &status, err) < 0)
        return err_prefix(err, "%s: ", host);
    *same = status == 0 && strstr(said, expected);
    if (status == 126 && strstr(wrong, "ermission denied"))
        return set_unusable(err, host, part, "its file system does not let programs run (noexec)");
    if (strstr(wrong, "GLIBC_"))
        return err_set(err, ERR_USAGE, "the C library of %s is too old for this build of jobctl; "
                       "build jobctl on your oldest system (%.200s)", host, wrong);
    if (status != 0 && status != 126)
        return err_set(err, ERR_SYSTEM, "jobctl-agent does not run on %s (status %d): %.300s", host,
                       status, wrong[0] ? wrong : said);
    return 0;
}

static int send_once(const struct programs *p, ssh_session s, sftp_session sftp, const char *host,
                     const char *whole, bool anew, bool *done, struct err *err)
{
    char part[PATH_MAX + 8], dir[PATH_MAX + 16];
    bool same = false;
    snprintf(part, sizeof(part), "%s.part", whole);
    snprintf(dir, sizeof(dir), "%s/bin", part);
    if (make_dirs(sftp, host, dir, err) < 0)
        return -1;
    snprintf(dir, sizeof(dir), "%s/lib", part);
    if (make_dirs(sftp, host, dir, err) < 0)
        return -1;
    for (int i = 0; i < p->count; i++)
        if (send_file(sftp, &p->list[i], host, part, anew, err) < 0)
            return -1;
    if (read_back(p, s, host, part, &same, err) < 0)
        return -1;
    *done = same && (sftp_rename(sftp, part, whole) == SSH_OK || is_there(sftp, whole));
    return 0;
}

/* A login that prints something breaks the protocol, unless the server is started by a command of ours. */
static sftp_session open_sftp(ssh_session s, const char *host, struct err *err)
{
    static const char command[] =
        "exec sh -c 'for p in /usr/lib/openssh /usr/libexec/openssh /usr/lib/ssh /usr/libexec /usr/lib/misc; do "
        "test -x $p/sftp-server && echo jobctl-sftp && exec $p/sftp-server; done; exit 1'";
    char why[200];
    struct host_talk talk;
    bool began = false;
    sftp_session sftp = sftp_new(s);
    if (sftp && sftp_init(sftp) == SSH_OK)
        return sftp;
    snprintf(why, sizeof(why), "%s", ssh_get_error(s));
    if (sftp)
        sftp_free(sftp);
    if (host_talk_open(&talk, s, host, command, "jobctl-sftp\n", &began, err) < 0)
        return NULL;
    sftp = began ? sftp_new_channel(s, talk.channel) : NULL;
    if (sftp && sftp_init(sftp) == SSH_OK)
        return sftp;
    if (sftp)
        sftp_free(sftp);
    else
        ssh_channel_free(talk.channel);
    err_set(err, ERR_USAGE, "%s has no sftp, which jobctl needs to copy its programs: %s%s%s%s", host, why,
            talk.noise[0] ? "; its login prints \"" : "", talk.noise,
            talk.noise[0] ? "\": make ~/.bashrc (or what prints it) silent without a terminal" : "");
    return NULL;
}

int programs_send(const struct programs *p, ssh_session s, const char *host, const char *cache, struct err *err)
{
    char whole[PATH_MAX];
    bool done = false;
    int rc = -1;
    login_deadline(host, LOGIN_STEP_S);
    snprintf(whole, sizeof(whole), "%.3900s/%s", cache, p->digest);
    sftp_session sftp = open_sftp(s, host, err);
    if (!sftp)
        goto out;
    if (strpbrk(cache, "\"'`$\\\n")) {
        err_set(err, ERR_USAGE, "the path of the cache directory of %s contains a special shell "
                "character: %.200s", host, cache);
        goto out;
    }
    if (check_machine(sftp, &p->list[0], host, err) < 0)
        goto out;
    for (int i = 0; i < TRIES && !done; i++) {
        struct err why = {0};
        if (i > 0)
            clock_wait(-1, PAUSE_MS);
        rc = send_once(p, s, sftp, host, whole, i == 2, &done, &why);
        done = done || is_there(sftp, whole);
        if (!done && (i == TRIES - 1 || why.code == ERR_USAGE || !ssh_is_connected(s))) {
            rc = err_set(err, ssh_is_connected(s) ? ERR_USAGE : ERR_SYSTEM, "%s",
                         rc < 0 ? why.text : "the files differ after the transfer");
            goto out;
        }
    }
    rc = 0;
out:
    if (sftp)
        sftp_free(sftp);
    return rc;
}
