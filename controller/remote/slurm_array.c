/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_array.c - see slurm_array.h */
#include "controller/remote/slurm_array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/os/log.h"
#include "controller/base/file_work.h"
#include "controller/remote/slurm_client.h"
#include "controller/spec/index_list.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"
#include "engine/base/write_all.h"

#define POINTER "array.json"
#define SCRIPT  "script"

enum {
    GATHER_MS = 500,        /* after the last one that joined */
    WAVE_MS = 10 * 1000,    /* the same, where it is known that more come */
    TASKS = 1000,           /* in one array; Slurm's default for MaxArraySize is 1001 */
    SCRIPT_MAX = 64 * 1024
};

/* gathering -> (writing) -> asked */
struct slurm_array {
    struct slurm_array         *next;
    uv_timer_t                  timer;
    int64_t                     sweep, most;
    int                         wave, size;
    bool                        recalled;       /* its files are there */
    bool                        sealed;
    char                        dir[PATH_MAX], comment[SBATCH_COMMENT], tag[48];
    char                       *script;
    json_t                     *hide;
    struct file_work           *files;
    struct file_task           *writing;
    struct slurm_array_member **members;
    size_t                      count;
};

static struct slurm_array *arrays;

static void gathered(uv_timer_t *timer);

/* ---- its end ---- */

static void timer_closed(uv_handle_t *handle)
{
    struct slurm_array *a = handle->data;
    free(a->script);
    json_decref(a->hide);
    free(a->members);
    free(a);
}

static void end(struct slurm_array *a)
{
    for (struct slurm_array **p = &arrays; *p; p = &(*p)->next)
        if (*p == a) {
            *p = a->next;
            break;
        }
    if (a->writing)
        file_work_drop(a->files, a->writing);
    slurm_client_forget(a);
    uv_close((uv_handle_t *)&a->timer, timer_closed);
}

/* Tells all, and ends. A member may leave or join another one meanwhile. */
static void end_with(struct slurm_array *a, enum slurm_array_end how, const json_t *answer)
{
    while (a->count > 0) {
        struct slurm_array_member *m = a->members[--a->count];
        m->array = NULL;
        if (how == SLURM_ARRAY_ALONE)
            m->dir[0] = m->comment[0] = '\0';
        m->tell(m, how, answer);
    }
    end(a);
}

/* The array will not be submitted: its files must not say that it may have been. */
static void give_up(struct slurm_array *a)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" SCRIPT, a->dir);
    unlink(path);
    end_with(a, SLURM_ARRAY_ALONE, NULL);
}

void slurm_array_leave(struct slurm_array_member *m)
{
    struct slurm_array *a = m->array;
    size_t i = 0;
    m->array = NULL;
    if (!a)
        return;
    while (i < a->count && a->members[i] != m)
        i++;
    if (i < a->count) {
        memmove(a->members + i, a->members + i + 1, (a->count - i - 1) * sizeof(*a->members));
        a->count--;
    }
    a->size -= a->size > 1 && !a->sealed;
    if (a->count == 0)
        end(a);
    else if (!a->sealed && a->size > 0 && a->count >= (size_t)a->size)
        uv_timer_start(&a->timer, gathered, 0, 0);
}

/* ---- the submission ---- */

static void answered(void *arg, const json_t *answer)
{
    struct slurm_array *a = arg;
    const bool ok = json_is_true(json_object_get(answer, "ok"));
    if (ok)
        log_info(a->tag, "Slurm job %lld, an array of %zu%s", (long long)field_safe_int(answer, "job", 0), a->count,
                 json_is_true(json_object_get(answer, "found")) ? ", already existed" : "");
    if (ok || json_is_true(json_object_get(answer, "away")) || json_is_true(json_object_get(answer, "unconfigured"))) {
        end_with(a, SLURM_ARRAY_ANSWERED, answer);
        return;
    }
    log_warn(a->tag, "Slurm rejected an array of %zu (%s); its members become separate jobs", a->count,
             field_text(answer, "error"));
    give_up(a);
}

char *slurm_array_script(const char *script, const char *tasks, int count, int64_t most)
{
    const size_t head = strcspn(script, "\n");
    char *out = NULL, limit[24] = "";
    if (most > 0 && most < count)
        snprintf(limit, sizeof(limit), "%%%lld", (long long)most);
    return asprintf(&out, "%.*s\n#SBATCH --array=%s%s%s", (int)head, script, tasks, limit, script + head) < 0 ? NULL : out;
}

/* "0-11", for free() */
static char *tasks_of(const struct slurm_array *a)
{
    struct index_list *list = calloc(1, sizeof(*list));
    for (size_t i = 0; list && i < a->count; i++)
        index_list_add(list, a->members[i]->task);
    char *text = list ? index_list_text(list) : NULL;
    free(list);
    return text;
}

static void ask(struct slurm_array *a)
{
    char *tasks = tasks_of(a), *script = tasks ? slurm_array_script(a->script, tasks, (int)a->count, a->most) : NULL;
    json_t *request = script ? json_make("{s:s, s:s, s:O*}", "op", "submit", "script", script, "without", a->hide) : NULL;
    free(tasks);
    free(script);
    if (!request) {
        log_error(a->tag, "out of memory for an array");
        give_up(a);
        return;
    }
    for (size_t i = 0; i < a->count; i++)
        a->members[i]->tell(a->members[i], SLURM_ARRAY_ASKED, NULL);
    slurm_client_ask(request, answered, a);
}

/* ---- its files ---- */

char *slurm_array_task_text(const char *run_dir, int64_t job, int64_t attempt, const char *nonce)
{
    char *out = NULL;
    return asprintf(&out, "%s\n%lld %lld %s\n", run_dir, (long long)job, (long long)attempt, nonce) < 0 ? NULL : out;
}

struct write_task {
    struct file_task base;
    char             dir[PATH_MAX], sweep_dir[PATH_MAX];
    char            *script;
    json_t          *members;   /* [{"run_dir", "task", "comment", "text"}] */
    struct err       err;
};

static int put(const char *dir, const char *name, const char *text, struct err *err)
{
    char path[PATH_MAX + 40];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    const int fd = safe_open(path, O_WRONLY | O_CREAT | O_TRUNC, err);
    if (fd < 0)
        return -1;
    const bool ok = write_all(fd, text, strlen(text)) == 0 && fsync(fd) == 0;
    const int errnum = errno;
    close(fd);
    return ok ? 0 : err_set_errno(err, errnum, "cannot write %s", path);
}

static int put_pointer(const struct write_task *t, const json_t *m, struct err *err)
{
    json_t *body = json_make("{s:s, s:O, s:O}", "dir", t->dir, "task", json_object_get(m, "task"), "comment",
                             json_object_get(m, "comment"));
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const char *run_dir = field_text(m, "run_dir");
    int rc = text ? put(run_dir, POINTER, text, err) : err_set(err, ERR_MEMORY, "out of memory for an array");
    if (rc == 0)
        rc = scratch_sync_dir(run_dir, err);
    free(text);
    json_decref(body);
    return rc;
}

static int put_member(const struct write_task *t, const json_t *m, struct err *err)
{
    char name[32], path[PATH_MAX + 40], log[PATH_MAX + 16];
    const int task = (int)field_safe_int(m, "task", 0);
    snprintf(name, sizeof(name), "%d.task", task);
    if (put(t->dir, name, field_text(m, "text"), err) < 0)
        return -1;
    snprintf(path, sizeof(path), "%s/%d.log", t->dir, task);
    snprintf(log, sizeof(log), "%s/slurm.log", field_text(m, "run_dir"));
    unlink(path);
    if (symlink(log, path) < 0)
        return err_set_errno(err, errno, "cannot make the link %s", path);
    return put_pointer(t, m, err);
}

static int make_dir(const struct write_task *t, struct err *err)
{
    char parent[PATH_MAX + 16];
    snprintf(parent, sizeof(parent), "%s/arrays", t->sweep_dir);
    if (mkdir(t->sweep_dir, 0700) < 0 && errno != EEXIST)
        return err_set_errno(err, errno, "cannot create directory %s", t->sweep_dir);
    if (mkdir(parent, 0700) < 0 && errno != EEXIST)
        return err_set_errno(err, errno, "cannot create directory %s", parent);
    if (mkdir(t->dir, 0700) < 0 && errno != EEXIST)     /* of a daemon that died before it had written all */
        return err_set_errno(err, errno, "cannot create directory %s", t->dir);
    return scratch_sync_dir(parent, err);
}

static void write_work(struct file_task *task)
{
    struct write_task *t = (struct write_task *)task;
    const json_t *m;
    size_t i;
    int rc = make_dir(t, &t->err);
    json_array_foreach (t->members, i, m)
        if (rc == 0)
            rc = put_member(t, m, &t->err);
    if (rc == 0 && scratch_sync_dir(t->dir, &t->err) == 0 && put(t->dir, SCRIPT, t->script, &t->err) == 0)
        scratch_sync_dir(t->dir, &t->err);
}

static void write_destroy(struct file_task *task)
{
    struct write_task *t = (struct write_task *)task;
    json_decref(t->members);
    free(t->script);
    free(t);
}

static void write_done(struct file_task *task)
{
    struct write_task *t = (struct write_task *)task;
    struct slurm_array *a = task->owner;
    a->writing = NULL;
    if (t->err.code) {
        log_warn(a->tag, "%s; its members become separate jobs", t->err.text);
        give_up(a);
    } else {
        ask(a);
    }
    write_destroy(task);
}

static void write_late(struct file_task *task)
{
    const struct slurm_array *a = task->owner;
    struct err err = { 0 };
    file_work_why(a->files, task, &err);
    for (size_t i = 0; i < a->count; i++)
        a->members[i]->wait(a->members[i], err.text);
}

static json_t *describe(const struct slurm_array_member *m)
{
    const struct remote_link *l = m->link;
    char *text = slurm_array_task_text(l->run_dir, l->job, l->attempt, l->nonce);
    json_t *out = text ? json_make("{s:s, s:i, s:s, s:s}", "run_dir", l->run_dir, "task", m->task, "comment",
                                   m->comment, "text", text) : NULL;
    free(text);
    return out;
}

static struct write_task *write_create(struct slurm_array *a)
{
    struct write_task *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->base = (struct file_task){ write_work, write_done, write_late, write_destroy, .owner = a };
    snprintf(t->dir, sizeof(t->dir), "%s", a->dir);
    snprintf(t->sweep_dir, sizeof(t->sweep_dir), "%s", a->members[0]->sweep_dir);
    t->script = strdup(a->script);
    t->members = json_array();
    bool ok = t->script && t->members;
    for (size_t i = 0; i < a->count; i++)
        ok = ok && json_array_append_new(t->members, describe(a->members[i])) == 0;
    if (ok)
        return t;
    write_destroy(&t->base);
    return NULL;
}

static void write_files(struct slurm_array *a)
{
    struct write_task *t = write_create(a);
    char what[PATH_MAX + 16];
    snprintf(what, sizeof(what), "writing %s", a->dir);
    if (t && a->files && file_work_begin(a->files, &t->base, a->dir, what, NULL) == 0) {
        a->writing = &t->base;
    } else {
        if (t)
            write_destroy(&t->base);
        log_error(a->tag, "out of memory for an array");
        give_up(a);
    }
}

/* ---- gathering ---- */

static void seal(struct slurm_array *a)
{
    a->sealed = true;
    uv_timer_stop(&a->timer);
    if (a->recalled) {
        ask(a);
    } else if (a->count < 2) {
        end_with(a, SLURM_ARRAY_ALONE, NULL);
    } else {
        for (size_t i = 0; i < a->count; i++) {
            struct slurm_array_member *m = a->members[i];
            m->task = (int)i;
            snprintf(m->dir, sizeof(m->dir), "%s", a->dir);
            snprintf(m->comment, sizeof(m->comment), "%s", a->comment);
        }
        write_files(a);
    }
}

static void gathered(uv_timer_t *timer)
{
    seal(timer->data);
}

static int add(struct slurm_array *a, struct slurm_array_member *m, struct err *err)
{
    void *grown = realloc(a->members, (a->count + 1) * sizeof(struct slurm_array_member *));
    if (!grown)
        return err_set(err, ERR_MEMORY, "out of memory for an array");
    a->members = grown;
    a->members[a->count++] = m;
    m->array = a;
    const bool whole = a->count == TASKS || (a->size > 0 && a->count >= (size_t)a->size);
    uv_timer_start(&a->timer, gathered, whole ? 0 : a->size > 0 ? WAVE_MS : GATHER_MS, 0);
    return 0;
}

static struct slurm_array *create(struct slurm_array_member *m, const json_t *hide)
{
    struct slurm_array *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    const struct remote_array *of = &m->of;
    a->sweep = of->sweep;
    a->most = of->most;
    a->wave = of->wave;
    a->size = of->wave ? of->size : 0;
    a->files = m->link->files;
    a->hide = json_incref((json_t *)(uintptr_t)hide);
    snprintf(a->tag, sizeof(a->tag), "%lld", (long long)of->sweep);
    uv_timer_init(m->link->loop, &a->timer);
    a->timer.data = a;
    a->next = arrays;
    arrays = a;
    return a;
}

/* The array that Slurm has forgotten, or never got. */
static int rejoin(struct slurm_array_member *m, const json_t *hide, struct err *err)
{
    struct slurm_array *a = arrays;
    char path[PATH_MAX + 16], text[SCRIPT_MAX];
    while (a && (a->sealed || strcmp(a->comment, m->comment) != 0))
        a = a->next;
    if (a)
        return add(a, m, err);
    snprintf(path, sizeof(path), "%s/" SCRIPT, m->dir);
    const int fd = safe_open(path, O_RDONLY, err);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0 || !(a = create(m, hide)))
        return fd < 0 ? -1 : err_set(err, ERR_SYSTEM, "cannot read %s", path);
    a->script = strndup(text, (size_t)n);
    a->size = 0;
    a->recalled = true;
    snprintf(a->dir, sizeof(a->dir), "%s", m->dir);
    snprintf(a->comment, sizeof(a->comment), "%s", m->comment);
    if (a->script && add(a, m, err) == 0)
        return 0;
    end(a);
    return err_set(err, ERR_MEMORY, "out of memory for an array");
}

static char *script_of(const struct slurm_array *a, const struct sbatch *s, struct err *err)
{
    struct sbatch with = *s;
    with.array = a->dir;
    with.array_comment = a->comment;
    return sbatch_render(&with, err);
}

static int begin(struct slurm_array_member *m, const struct sbatch *s, const json_t *hide, struct err *err)
{
    struct slurm_array *a = create(m, hide);
    if (!a)
        return err_set(err, ERR_MEMORY, "out of memory for an array");
    snprintf(a->dir, sizeof(a->dir), "%.*s/arrays/%.16s", PATH_MAX - 32, m->sweep_dir, s->nonce);
    sbatch_array_comment(a->comment, m->of.sweep, s->job, s->nonce);
    a->script = script_of(a, s, err);
    if (a->script && add(a, m, err) == 0)
        return 0;
    end(a);
    return -1;
}

int slurm_array_join(struct slurm_array_member *m, const struct sbatch *s, const json_t *hide, struct err *err)
{
    if (m->dir[0])
        return rejoin(m, hide, err);
    for (struct slurm_array *a = arrays; a; a = a->next) {
        if (a->sealed || a->recalled || a->sweep != m->of.sweep || a->wave != m->of.wave)
            continue;
        char *script = script_of(a, s, err);
        const bool same = script && strcmp(script, a->script) == 0;
        free(script);
        if (!script)
            return -1;
        if (same)
            return add(a, m, err);
    }
    return begin(m, s, hide, err);
}

bool slurm_array_recall(struct slurm_array_member *m)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof(path), "%s/" POINTER, m->link->run_dir);
    json_t *body = safe_open_json(path, 0, NULL);
    snprintf(m->dir, sizeof(m->dir), "%s", field_text(body, "dir"));
    snprintf(m->comment, sizeof(m->comment), "%s", field_text(body, "comment"));
    m->task = (int)field_safe_int(body, "task", -1);
    json_decref(body);
    snprintf(path, sizeof(path), "%.*s/" SCRIPT, PATH_MAX - 1, m->dir);
    if (m->dir[0] && m->comment[0] && m->task >= 0 && access(path, F_OK) == 0)
        return true;
    m->dir[0] = m->comment[0] = '\0';
    return false;
}

bool slurm_array_is(const struct slurm_array_member *m, const json_t *job)
{
    const json_t *task = json_object_get(job, "task");
    if (!m->comment[0] || strcmp(field_text(job, "comment"), m->comment) != 0)
        return false;
    if (json_is_integer(task))
        return json_integer_value(task) == m->task;
    struct index_list *list = malloc(sizeof(*list));
    const bool has = list && index_list_parse(list, field_text(job, "tasks"), NULL) == 0 && index_list_has(list, m->task);
    free(list);
    return has;
}
