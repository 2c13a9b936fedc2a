/* SPDX-License-Identifier: Apache-2.0 */
/* sample_log.c - see sample_log.h */
#include "engine/data/sample_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/base/scratch.h"

enum { LOG_PATH = 4096, SLOT_TEXT = 34 /* digits per slot */, UNWRITTEN = 64 << 20 };

struct sample_log {
    atomic_int         fd; /* -1: not opened yet; read by the thread that syncs */
    int                rank, world;
    int                height, width; /* size of the latents of the step */
    char               path[LOG_PATH];
    int64_t            resume;
    struct batch_slot *slots;
    size_t             n, room;
    char              *text;  /* lines that are not written yet */
    size_t             len, text_room;
};

/* Step of a line, or -1. */
static int64_t step_of(const char *line)
{
    long long step;
    return sscanf(line, "{\"step\":%lld", &step) == 1 && strchr(line, '\n') ? step : -1;
}

/* Truncates a file at the first line beyond `last`: steps only rise in a file. */
static int cut(const char *path, int64_t last, struct err *err)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    off_t keep = 0;
    FILE *in = fopen(path, "re");
    if (!in)
        return errno == ENOENT ? 0 : err_set_errno(err, errno, "cannot read %s", path);
    while ((n = getline(&line, &room, in)) >= 0) {
        int64_t step = step_of(line);
        if (step < 0 || step > last)
            break;
        keep += n;
    }
    free(line);
    fclose(in);
    if (truncate(path, keep) < 0)
        return err_set_errno(err, errno, "cannot truncate %s", path);
    return 0;
}

static int rank_of(const char *name)
{
    int rank, end = 0;
    return sscanf(name, "rank-%d.jsonl%n", &rank, &end) == 1 && end > 0 && !name[end] ? rank : -1;
}

static int is_log(const struct dirent *e)
{
    return rank_of(e->d_name) >= 0;
}

static int name_file(char path[LOG_PATH], const char *dir, const char *name, struct err *err)
{
    if (snprintf(path, LOG_PATH, "%s/%s", dir, name) >= LOG_PATH)
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    return 0;
}

/* Also truncates files of ranks that a smaller run does not have. */
static int cut_others(const char *dir, int world, int64_t last, struct err *err)
{
    struct dirent **names = NULL;
    char path[LOG_PATH];
    int n = scandir(dir, &names, is_log, alphasort), rc = 0;
    for (int i = 0; i < n; i++) {
        if (rc == 0 && rank_of(names[i]->d_name) >= world &&
            (name_file(path, dir, names[i]->d_name, err) < 0 || cut(path, last, err) < 0))
            rc = -1;
        free(names[i]);
    }
    free(names);
    return rc;
}

static int open_file(struct sample_log *l, struct err *err)
{
    char dir[LOG_PATH];
    if (l->fd >= 0)
        return 0;
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(l->path, '/') - l->path), l->path);
    if (scratch_mkdirs(dir, err) < 0 || cut(l->path, l->resume, err) < 0 ||
        (l->rank == 0 && cut_others(dir, l->world, l->resume, err) < 0))
        return -1;
    l->fd = open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    return l->fd >= 0 ? 0 : err_set_errno(err, errno, "cannot write %s", l->path);
}

struct sample_log *sample_log_open(const char *dir, int rank, int world, int64_t resume_step, struct err *err)
{
    char name[32];
    struct sample_log *l = calloc(1, sizeof(*l));
    if (!l) {
        err_set(err, ERR_MEMORY, "out of memory for a log of samples");
        return NULL;
    }
    *l = (struct sample_log){.rank = rank, .world = world, .resume = resume_step};
    atomic_init(&l->fd, -1);
    snprintf(name, sizeof(name), "rank-%05d.jsonl", rank);
    if (name_file(l->path, dir, name, err) < 0) {
        free(l);
        return NULL;
    }
    open_file(l, err);
    return l;
}

void sample_log_close(struct sample_log *l)
{
    if (!l)
        return;
    if (l->fd >= 0)
        close(l->fd);
    free(l->slots);
    free(l->text);
    free(l);
}

void sample_log_begin(struct sample_log *l)
{
    if (l)
        l->n = 0;
}

int sample_log_add(struct sample_log *l, const struct batch_slot *slots, int n, int height, int width, struct err *err)
{
    if (!l)
        return 0;
    l->height = height;
    l->width = width;
    if (l->n + (size_t)n > l->room) {
        size_t room = 2 * (l->n + (size_t)n);
        struct batch_slot *more = realloc(l->slots, room * sizeof(*more));
        if (!more)
            return err_set(err, ERR_MEMORY, "out of memory for a log of %zu samples", room);
        l->slots = more;
        l->room = room;
    }
    memcpy(l->slots + l->n, slots, sizeof(*slots) * (size_t)n);
    l->n += (size_t)n;
    return 0;
}

/* Formats the line behind those in l->text; returns its length. */
static size_t format(struct sample_log *l, int64_t step)
{
    char *const line = l->text + l->len, *p = line;
    p += sprintf(p, "{\"step\":%" PRId64 ",\"rank\":%d,\"world\":%d,\"height\":%d,\"width\":%d,",
                 step, l->rank, l->world, l->height, l->width);
    p += sprintf(p, "\"epochs\":[");
    for (size_t i = 0; i < l->n; i++)
        p += sprintf(p, "%s%" PRIu32, i ? "," : "", l->slots[i].epoch);
    p += sprintf(p, "],\"samples\":[");
    for (size_t i = 0; i < l->n; i++)
        p += sprintf(p, "%s%" PRId64, i ? "," : "", l->slots[i].sample);
    p += sprintf(p, "]}\n");
    return (size_t)(p - line);
}

/* Writes what is unwritten; what the disk does not take waits for the next step. */
static int write_lines(struct sample_log *l, struct err *err)
{
    if (open_file(l, err) < 0)
        return -1;
    while (l->len > 0) {
        const ssize_t wrote = write(l->fd, l->text, l->len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return err_set_errno(err, wrote < 0 ? errno : ENOSPC, "cannot write %s", l->path);
        l->len -= (size_t)wrote;
        memmove(l->text, l->text + wrote, l->len);
    }
    return 0;
}

int sample_log_commit(struct sample_log *l, int64_t step, struct err *err)
{
    if (!l)
        return 0;
    size_t room = l->len + 200 + l->n * SLOT_TEXT;
    if (room > UNWRITTEN)
        return write_lines(l, err) < 0 ? -1 : sample_log_commit(l, step, err);
    if (room > l->text_room) {
        char *more = realloc(l->text, 2 * room);
        if (!more)
            return err_set(err, ERR_MEMORY, "out of memory for a log of %zu samples", l->n);
        l->text = more;
        l->text_room = 2 * room;
    }
    l->len += format(l, step);
    return write_lines(l, err);
}

int sample_log_sync(struct sample_log *l, struct err *err)
{
    if (l && l->fd >= 0 && fsync(l->fd) < 0)
        return err_set_errno(err, errno, "cannot write %s to disk", l->path);
    return 0;
}

/* --- reading ----------------------------------------------------------------------------- */

static int int_of(const json_t *o, const char *key)
{
    return (int)json_integer_value(json_object_get(o, key));
}

/* The slots of a line; NULL if its lists are malformed. */
static struct batch_slot *slots_of(const json_t *o, int *n)
{
    const json_t *epochs = json_object_get(o, "epochs"), *samples = json_object_get(o, "samples");
    size_t len = json_array_size(samples);
    if (!json_is_array(samples) || json_array_size(epochs) != len || len > INT32_MAX)
        return NULL;
    struct batch_slot *slots = calloc(len ? len : 1, sizeof(*slots));
    *n = (int)len;
    for (size_t i = 0; slots && i < len; i++) {
        slots[i].sample = json_integer_value(json_array_get(samples, i));
        slots[i].epoch = (uint32_t)json_integer_value(json_array_get(epochs, i));
    }
    return slots;
}

static int read_file(const char *path, sample_log_fn fn, void *arg, struct err *err)
{
    char *text = NULL;
    size_t room = 0;
    int rc = 0;
    FILE *in = fopen(path, "re");
    if (!in)
        return err_set_errno(err, errno, "cannot read %s", path);
    for (int at = 1; rc == 0 && getline(&text, &room, in) >= 0; at++) {
        json_t *o = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
        struct sample_log_line line = {
            .step = json_integer_value(json_object_get(o, "step")), .rank = int_of(o, "rank"),
            .world = int_of(o, "world"), .height = int_of(o, "height"),
            .width = int_of(o, "width"),
        };
        struct batch_slot *slots = slots_of(o, &line.n);
        line.slots = slots;
        if (slots && line.step > 0)
            rc = fn(arg, &line, err);
        else if (strchr(text, '\n')) /* else a run is writing it, or died while writing */
            rc = err_set(err, ERR_DATA, "%s:%d is not a line of a sample log", path, at);
        free(slots);
        json_decref(o);
    }
    free(text);
    fclose(in);
    return rc;
}

int sample_log_read(const char *dir, sample_log_fn fn, void *arg, struct err *err)
{
    struct dirent **names = NULL;
    char path[LOG_PATH];
    int n = scandir(dir, &names, is_log, alphasort), rc = 0;
    if (n < 0)
        return err_set(err, ERR_NOT_FOUND, "cannot read %s: %s", dir, strerror(errno));
    for (int i = 0; i < n; i++) {
        if (rc == 0 && (name_file(path, dir, names[i]->d_name, err) < 0 ||
                        read_file(path, fn, arg, err) < 0))
            rc = -1;
        free(names[i]);
    }
    free(names);
    return rc;
}
