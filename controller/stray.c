/* SPDX-License-Identifier: Apache-2.0 */
/* stray.c - see stray.h */
#include "controller/stray.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/log.h"
#include "controller/daemon.h"
#include "controller/remote.h"
#include "db/attempts.h"
#include "engine/err.h"

enum { FIRST_CALL_MS = 1000 };

struct stray {
    struct daemon     *daemon;
    struct link       *link;
    struct attempt_row attempt;
    struct stray      *next;
};

static void path_of(char *out, size_t size, const struct daemon *d, int64_t job, int64_t attempt)
{
    snprintf(out, size, "%.3900s/strays", d->home);
    if (job > 0)
        snprintf(out, size, "%.3900s/strays/%lld.%lld", d->home, (long long)job,
                 (long long)attempt);
}

static void let_go(struct stray *s)
{
    struct stray **at = &s->daemon->strays;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    remote_ssh.close(s->link);
    free(s);
}

static void forget(struct stray *s)
{
    char path[PATH_MAX];
    path_of(path, sizeof(path), s->daemon, s->attempt.job, s->attempt.attempt);
    unlink(path);
    let_go(s);
}

/* The hand ends its agent, and all that it started, before it says anything. */
static void hear(void *arg, enum wire_message number, const json_t *body)
{
    (void)arg;
    (void)number;
    (void)body;
}

static void proven_gone(void *arg, const char *text)
{
    const struct stray *s = arg;
    log_info(NULL, "job %lld: attempt %lld on %s is gone for good: %s", (long long)s->attempt.job,
             (long long)s->attempt.attempt, s->attempt.node, text);
    forget(arg);
}

static int64_t acked(void *arg)
{
    const struct stray *s = arg;
    return s->attempt.acked;
}

static void call(struct daemon *d, const struct attempt_row *row)
{
    struct err err = { 0 };
    char key[48];
    struct stray *s = calloc(1, sizeof(*s));
    if (!s)
        return;
    s->daemon = d;
    s->attempt = *row;
    remote_key(key, sizeof(key), d->instance, row->job);
    const struct link_spec spec = { .job = row->job, .attempt = row->attempt,
                                    .nonce = s->attempt.nonce, .run_dir = s->attempt.run_dir,
                                    .host = s->attempt.node, .key = key, .dismiss = true,
                                    .delay_ms = FIRST_CALL_MS };
    const struct link_hooks hooks = { .message = hear, .lost = proven_gone, .acked = acked,
                                      .arg = s };
    if (remote_ssh.open(&s->link, &d->loop, &spec, &hooks, &err) < 0) {
        log_warn(NULL, "%s", err.text);
        free(s);
        return;
    }
    s->next = d->strays;
    d->strays = s;
}

void stray_add(struct daemon *d, const struct attempt_row *row)
{
    char path[PATH_MAX];
    path_of(path, sizeof(path), d, 0, 0);
    mkdir(path, 0700);
    path_of(path, sizeof(path), d, row->job, row->attempt);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        log_error(NULL, "cannot remember a stray agent in %s: %m", path);
    else
        close(fd);
    call(d, row);
}

void stray_open(struct daemon *d)
{
    char path[PATH_MAX];
    path_of(path, sizeof(path), d, 0, 0);
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        long long job, attempt;
        struct attempt_row row;
        if (sscanf(e->d_name, "%lld.%lld", &job, &attempt) == 2 &&
            attempts_get(&row, d->store, job, attempt, NULL) == 0)
            call(d, &row);
    }
    if (dir)
        closedir(dir);
}

void stray_close(struct daemon *d)
{
    while (d->strays)
        let_go(d->strays);
}
