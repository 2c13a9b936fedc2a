/* SPDX-License-Identifier: Apache-2.0 */
/* sbatch.c - see sbatch.h; the template is embedded in the program */
#include "controller/remote/sbatch.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/submit_env.h"
#include "engine/base/buf.h"
#include "controller/spec/sbatch_text.h"
#include "engine/base/err.h"
#include "engine/base/json_text.h"

__asm__(".section .rodata\njobctl_slurm_sbatch:\n.incbin \"templates/slurm.sbatch\"\n.byte 0\n"
        ".previous\n");
extern const char jobctl_slurm_sbatch[];

enum { VALUE = 4200, OPTIONS = 8192, GRACE_S = 120, GRACE_MAX_S = 65535 };

void sbatch_comment(char out[SBATCH_COMMENT], int64_t job, int64_t attempt, const char *nonce)
{
    snprintf(out, SBATCH_COMMENT, "jobctl:%lld.%lld:%s", (long long)job, (long long)attempt, nonce);
}

void sbatch_array_comment(char out[SBATCH_COMMENT], int64_t sweep, int64_t first, const char *nonce)
{
    snprintf(out, SBATCH_COMMENT, "jobctl-array:%lld.%lld:%s", (long long)sweep, (long long)first, nonce);
}

static const json_t *slurm_of(const struct sbatch *s, const char *key)
{
    return json_object_get(json_object_get(s->spec, "slurm"), key);
}

static int add_option(char *out, const char *name, const char *value, struct err *err)
{
    size_t at = strlen(out);
    if (sbatch_text_check(value, err) < 0)
        return -1;
    int n = snprintf(out + at, OPTIONS - at, "%s#SBATCH --%s%s%s", at ? "\n" : "", name, value[0] ? "=" : "", value);
    return n > 0 && (size_t)n < OPTIONS - at ? 0 : err_set(err, ERR_USAGE, "slurm: the options "
                                                                           "are too long");
}

static int add_number(char *out, const char *name, int64_t value, struct err *err)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    return add_option(out, name, text, err);
}

static int nodes_of(const struct sbatch *s)
{
    const json_t *nodes = json_object_get(json_object_get(s->spec, "resources"), "nodes");
    return s->nodes > 0 ? s->nodes : (int)json_integer_value(nodes);
}

/* Joins the spec's nodes and the lost ones: sbatch uses the last --exclude only. */
static int add_exclude(char *out, const struct sbatch *s, struct err *err)
{
    char list[VALUE];
    const char *said = json_string_value(json_object_get(slurm_of(s, "extra"), "exclude"));
    const char *avoid = s->avoid ? s->avoid : "";
    if (!said && !avoid[0])
        return 0;
    snprintf(list, sizeof(list), "%s%s%s", said ? said : "", said && avoid[0] ? "," : "", avoid);
    return add_option(out, "exclude", list, err);
}

/* Clusters differ: --gpus, or --gres with a name set by the site. */
static int add_gpus(char *out, const struct sbatch *s, int64_t n, struct err *err)
{
    const char *gres = json_string_value(slurm_of(s, "gres"));
    char value[VALUE];
    if (!gres)
        return add_number(out, "gpus-per-node", n, err);
    snprintf(value, sizeof(value), "%s:%lld", gres, (long long)n);
    return add_option(out, "gres", value, err);
}

/* The optional lines. */
static int make_options(char out[OPTIONS], const struct sbatch *s, struct err *err)
{
    static const char *const texts[] = { "partition", "account" };
    const json_t *resources = json_object_get(s->spec, "resources");
    const json_t *gpus = json_object_get(resources, "gpus");
    const json_t *cpus = json_object_get(resources, "cpus"), *time = slurm_of(s, "time");
    const char *key;
    json_t *value;
    out[0] = 0;
    for (size_t i = 0; i < 2; i++) {
        const char *text = json_string_value(slurm_of(s, texts[i]));
        if (text && add_option(out, texts[i], text, err) < 0)
            return -1;
    }
    if (json_integer_value(gpus) > 0 && add_gpus(out, s, json_integer_value(gpus), err) < 0)
        return -1;
    if (json_is_integer(cpus) &&
        add_number(out, "cpus-per-task", json_integer_value(cpus), err) < 0)
        return -1;
    if (json_is_number(time) &&
        add_number(out, "time", (int64_t)ceil(json_number_value(time) / 60), err) < 0)
        return -1;
    if (nodes_of(s) > 1 && add_option(out, "no-kill", "", err) < 0)
        return -1;
    if (add_exclude(out, s, err) < 0)
        return -1;
    json_object_foreach ((json_t *)(uintptr_t)slurm_of(s, "extra"), key, value) {
        const char *text = json_string_value(value);
        bool flag = strcmp(key, "exclusive") == 0;
        if (strcmp(key, "exclude") == 0)
            continue;
        if (add_option(out, key, flag || !text ? "" : text, err) < 0)
            return -1;
    }
    return 0;
}

/* Twice the duration of a checkpoint, at least the spec's value, at most half of the time limit. */
static int grace_s(const struct sbatch *s)
{
    const json_t *grace = slurm_of(s, "grace"), *time = slurm_of(s, "time");
    const double least = json_is_number(grace) ? json_number_value(grace) : GRACE_S;
    const double most = json_is_number(time) ? json_number_value(time) / 2 : GRACE_MAX_S;
    double lead = 2 * (double)s->save_ms / 1000;
    lead = lead < most ? lead : most;
    lead = lead < GRACE_MAX_S ? lead : GRACE_MAX_S;
    return (int)ceil(lead > least ? lead : least);
}

/* "4", or "2-4": Slurm allocates as many as are free. */
static void fill_nodes(char *out, const struct sbatch *s)
{
    if (s->least > 0 && s->least < nodes_of(s))
        snprintf(out, VALUE, "%d-%d", s->least, nodes_of(s));
    else
        snprintf(out, VALUE, "%d", nodes_of(s));
}

static const char *dir_of(const struct sbatch *s)
{
    return s->array ? s->array : s->run_dir;
}

/* Where the attempt is, in shell: a task of an array reads it. */
static int fill_place(char out[OPTIONS], const struct sbatch *s, struct err *err)
{
    if (sbatch_text_check(dir_of(s), err) < 0 || sbatch_text_check(s->nonce, err) < 0)
        return -1;
    if (s->array)
        snprintf(out, OPTIONS, "{ IFS= read -r dir && read -r job attempt nonce; } <\"%s/$SLURM_ARRAY_TASK_ID.task\" || "
                 "exit 4", s->array);
    else
        snprintf(out, OPTIONS, "dir=\"%s\"\njob=%lld attempt=%lld nonce=%s", s->run_dir, (long long)s->job,
                 (long long)s->attempt, s->nonce);
    return 0;
}

/* Of an array, the name of the sweep: that of each member is followed by its index. */
static void fill_name(char *out, const struct sbatch *s)
{
    const char *name = json_string_value(json_object_get(s->spec, "name"));
    const char *end = s->array && name ? strrchr(name, '[') : NULL;
    snprintf(out, VALUE, "%.*s", end ? (int)(end - name) : VALUE, name ? name : "jobctl");
}

/* Appends the value of {{name}}. */
static int fill(char out[OPTIONS], const char *name, const struct sbatch *s, struct err *err)
{
    if (strcmp(name, "options") == 0)
        return make_options(out, s, err);
    if (strcmp(name, "place") == 0)
        return fill_place(out, s, err);
    if (strcmp(name, "comment") == 0 && s->array)
        snprintf(out, VALUE, "%s", s->array_comment);
    else if (strcmp(name, "comment") == 0)
        sbatch_comment(out, s->job, s->attempt, s->nonce);
    else if (strcmp(name, "name") == 0)
        fill_name(out, s);
    else if (strcmp(name, "nodes") == 0)
        fill_nodes(out, s);
    else if (strcmp(name, "grace") == 0)
        snprintf(out, VALUE, "%d", grace_s(s));
    else if (strcmp(name, "notice") == 0)  /* ms for the ranks: less, Slurm is not exact */
        snprintf(out, VALUE, "%d", grace_s(s) * 800);
    else if (strcmp(name, "dir") == 0)
        snprintf(out, VALUE, "%s", dir_of(s));
    else if (strcmp(name, "log") == 0)
        snprintf(out, VALUE, "%s", s->array ? "%a.log" : "slurm.log");
    else if (strcmp(name, "agent") == 0)
        snprintf(out, VALUE, "%s", s->agent);
    else
        return err_set(err, ERR_BUG, "templates/slurm.sbatch: unknown name {{%.40s}}", name);
    return sbatch_text_check(out, err);
}

/* A line that consists of an empty value only is dropped. */
static int add_line(struct buf *out, const char *line, size_t size, const struct sbatch *s, struct err *err)
{
    char value[OPTIONS], name[40];
    size_t before = out->size;
    bool filled = false;
    for (size_t at = 0; at < size;) {
        const char *open = memmem(line + at, size - at, "{{", 2);
        size_t plain = open ? (size_t)(open - line) - at : size - at;
        if (plain > 0 && buf_append(out, line + at, plain) < 0)
            return err_set(err, ERR_MEMORY, "out of memory for a batch script");
        at += plain;
        if (!open)
            break;
        size_t n = strcspn(open + 2, "}");
        snprintf(name, sizeof(name), "%.*s", (int)(n < 39 ? n : 39), open + 2);
        if (fill(value, name, s, err) < 0)
            return -1;
        if (value[0] && buf_append(out, value, strlen(value)) < 0)
            return err_set(err, ERR_MEMORY, "out of memory for a batch script");
        at += n + 4;
        filled = true;
    }
    if (filled && out->size == before)
        return 0;
    return buf_append(out, "\n", 1) < 0 ? err_set(err, ERR_MEMORY, "out of memory for a batch script")
                                        : 0;
}

char *sbatch_render(const struct sbatch *s, struct err *err)
{
    struct buf out;
    char *text = NULL;
    buf_init(&out);
    for (const char *line = jobctl_slurm_sbatch; *line;) {
        size_t n = strcspn(line, "\n");
        if (add_line(&out, line, n, s, err) < 0)
            goto out;
        line += n + (line[n] == '\n');
    }
    text = buf_take(&out);
    if (!text)
        err_set(err, ERR_MEMORY, "out of memory for a batch script");
out:
    buf_fini(&out);
    return text;
}

json_t *sbatch_hidden(const json_t *spec)
{
    json_t *names = json_deep_copy(json_object_get(spec, "secrets"));
    char name[256];
    names = names ? names : json_array();
    for (char **e = environ; *e; e++) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
        if (submit_env_fate(name, false, NULL) == SUBMIT_ENV_SECRET)
            json_array_append_new(names, json_text(name));
    }
    return names;
}
