/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_run.c - see mirror_run.h
 *
 * Two threads: the main thread copies; the other one writes the lease's beat, which a long copy
 * must not delay, and exits the process at once when the lease is lost.
 */
#include "agent/mirror/mirror_run.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/os/lease.h"
#include "agent/mirror/mirror.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"

enum { LOOK_MS = 200 };

struct keeper {
    struct mirror   mirror;
    char            origin[LEASE_ORIGIN];
    json_t         *file;
    struct lease    lease;
    int64_t         wait_ms;
    pthread_t       beater;
    pthread_mutex_t lock;
    pthread_cond_t  wake;
    bool            over;            /* under lock */
    char said[sizeof(((struct err *)0)->text)]; /* the last warning, to suppress repeats */
};

static void say(json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (text) {
        printf("%s\n", text);
        fflush(stdout);
    }
    free(text);
    json_decref(line);
}

static void say_text(const char *ev, const char *text)
{
    say(json_make("{s:s, s:s}", "ev", ev, "text", text));
}

static void say_copy(const char *ev, const struct mirror_copy *c)
{
    say(json_make("{s:s, s:I, s:I, s:I, s:s}", "ev", ev, "step", (json_int_t)c->step, "bytes",
                  (json_int_t)c->bytes, "ms", (json_int_t)c->ms, "path", c->path));
}

static void waits(void *arg, const char *text)
{
    (void)arg;
    say_text("warning", text);
}

static void warn(struct keeper *k, const struct err *err)
{
    if (strcmp(k->said, err->text) != 0)
        say_text("warning", err->text);
    snprintf(k->said, sizeof(k->said), "%s", err->text);
}

static void bad_copy(void *arg, const char *path, const char *reason)
{
    char text[2 * MIRROR_PATH];
    (void)arg;
    snprintf(text, sizeof(text), "%s is damaged (%s); using the previous checkpoint", path, reason);
    say_text("warning", text);
}

/* --- the beat --------------------------------------------------------------------------- */

static void *beat(void *arg)
{
    struct keeper *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->over) {
        struct timespec until;
        struct err err = {0};
        clock_gettime(CLOCK_MONOTONIC, &until); /* a wall clock that is set back would stop the beat */
        int64_t ns = until.tv_nsec + k->wait_ms / LEASE_BEATS * 1000000;
        until.tv_sec += ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        pthread_cond_timedwait(&k->wake, &k->lock, &until);
        if (k->over)
            break;
        pthread_mutex_unlock(&k->lock);
        if (lease_beat(&k->lease, &err) < 0 && err.code == ERR_CONFLICT) {
            say_text("lost", err.text);
            _exit(err_exit_code(err.code)); /* not one byte more into another holder's mirror */
        }
        pthread_mutex_lock(&k->lock);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

static int start_beat(struct keeper *k)
{
    pthread_condattr_t a;
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_cond_init(&k->wake, &a);
    pthread_condattr_destroy(&a);
    return pthread_create(&k->beater, NULL, beat, k) == 0 ? 0 : -1;
}

static void end_beat(struct keeper *k)
{
    pthread_mutex_lock(&k->lock);
    k->over = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    pthread_join(k->beater, NULL);
}

/* --- copies ----------------------------------------------------------------------------- */

static void copy_all(struct keeper *k)
{
    struct mirror_copy done;
    struct err err = {0};
    int rc = mirror_push(&k->mirror, &done, &err);
    if (rc > 0)
        say_copy("mirrored", &done);
    if (rc > 0)
        rc = mirror_rest(&k->mirror, &err);
    if (rc < 0)
        warn(k, &err);
}

/* SIGTERM, also sent by the kernel when the agent dies (agent/os/subprocess.h). */
static void serve(struct keeper *k, const sigset_t *ends)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    do
        copy_all(k);
    while (sigtimedwait(ends, NULL, &pause) < 0);
    copy_all(k);
}

/* --- start -------------------------------------------------------------------------------- */

static int take_path(char *out, const json_t *o, const char *key, struct err *err)
{
    const char *text = json_string_value(json_object_get(o, key));
    if (!text || snprintf(out, MIRROR_PATH, "%s", text) >= MIRROR_PATH)
        return err_set(err, ERR_USAGE, "the mirror description has no valid \"%s\"", key);
    return 0;
}

static int read_file(struct keeper *k, const char *path, struct err *err)
{
    k->file = safe_open_json(path, 0, err);
    if (!k->file)
        return -1;
    const char *origin = json_string_value(json_object_get(k->file, "origin"));
    snprintf(k->origin, sizeof(k->origin), "%s", origin ? origin : "");
    k->mirror.keep = (int)json_integer_value(json_object_get(k->file, "keep"));
    k->wait_ms = lease_wait_ms();
    if (!k->origin[0] || k->mirror.keep < 1)
        return err_set(err, ERR_USAGE, "'%s' is not a mirror description", path);
    if (take_path(k->mirror.here, k->file, "here", err) < 0 ||
        take_path(k->mirror.there, k->file, "there", err) < 0)
        return -1;
    return take_path(k->mirror.job_dir, k->file, "job_dir", err);
}

static int begin(struct keeper *k, const char *path, struct err *err)
{
    struct mirror_copy done;
    const struct lease_taker by = {.origin = k->origin, .name = "", .home = "", .mirror = true};
    if (read_file(k, path, err) < 0 || mirror_open(&k->mirror, err) < 0 ||
        lease_take(&k->lease, k->mirror.there, &by, k->wait_ms, waits, NULL, err) < 0)
        return -1;
    if (start_beat(k) < 0) {
        lease_release(&k->lease, NULL);
        return err_set(err, ERR_SYSTEM, "cannot start a thread");
    }
    int rc = mirror_inherit(&k->mirror, err);
    if (rc == 0)
        rc = mirror_describe(&k->mirror, json_object_get(k->file, "job"), err);
    if (rc == 0)
        rc = mirror_pull(&k->mirror, &done, bad_copy, NULL, err);
    if (rc > 0)
        say_copy("restored", &done);
    if (rc >= 0)
        return 0;
    end_beat(k);
    lease_release(&k->lease, NULL);
    return -1;
}

int mirror_run(const char *file, struct err *err)
{
    static struct keeper k = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct err late = {0};
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (begin(&k, file, err) < 0) {
        say_text("refused", err->text);
        json_decref(k.file);
        return -1;
    }
    say(json_make("{s:s}", "ev", "ready"));
    serve(&k, &ends);
    end_beat(&k);
    if (mirror_rest(&k.mirror, &late) < 0 || lease_release(&k.lease, &late) < 0)
        warn(&k, &late);
    json_decref(k.file);
    return 0;
}
