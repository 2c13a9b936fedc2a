/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_diff.c - jobctl diff: compares the specs and the code of two jobs
 *
 * Both are written as trees of text into a temporary directory, a/ and b/, and diff(1) compares them.
 */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/code/code_tree.h"
#include "agent/os/subprocess.h"
#include "controller/base/client.h"
#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/job/job_code.h"
#include "engine/base/field.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/scratch.h"

enum { PATH = PATH_MAX + CODE_PATH, DIFF_MS = 60000 };

static const struct option_row options[] = {
    {"spec", 0, OPTION_FLAG, NULL, "the specs only"},
    {"code", 0, OPTION_FLAG, NULL, "the code only"},
    OPTION_JSON,
    {.name = NULL},
};

struct side {
    const char   *letter;       /* "a", "b" */
    char          dir[PATH_MAX];    /* of the temporary directory */
    json_t       *answer;
    const json_t *code;         /* info.json of the job; NULL: nothing was recorded */
};

/* ---- what is compared ---- */

/* Values that differ between any two jobs tell nothing. */
static json_t *comparable(const json_t *answer)
{
    json_t *spec = json_deep_copy(json_object_get(answer, "spec")), *checkpoint = json_object_get(spec, "checkpoint");
    const char *own = field_text(json_object_get(answer, "paths"), "dir");
    const char *dir = field_text(checkpoint, "dir");
    json_object_del(checkpoint, "origin");
    if ((own[0] && strncmp(dir, own, strlen(own)) == 0) || strncmp(dir, "hosted/", 7) == 0)
        json_object_set_new(checkpoint, "dir", json_text("auto"));
    return spec;
}

static int write_spec(const struct side *s, struct err *err)
{
    char path[PATH];
    snprintf(path, sizeof(path), "%s/%s/spec.json", s->dir, s->letter);
    json_t *spec = comparable(s->answer);
    const int rc = json_file_save(spec, path, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(spec);
    return rc == 0 ? 0 : err_set_errno(err, errno, "cannot write %s", path);
}

/* The original of a snapshot, or what git said. */
static void original_of(char out[PATH], const struct side *s)
{
    char home[PATH_MAX];
    out[0] = '\0';
    if (code_digest_ok(field_text(s->code, "snapshot")) && home_dir(home, sizeof(home), NULL) == 0)
        job_code_original(out, PATH, home, field_text(s->code, "snapshot"));
}

static int put_link(const char *target, const char *path, struct err *err)
{
    return symlink(target, path) == 0 ? 0 : err_set_errno(err, errno, "cannot write %s", path);
}

static int make_parents(const char *path, size_t root, struct err *err)
{
    char dir[PATH];
    for (const char *p = path + root; (p = strchr(p, '/')); p++) {
        snprintf(dir, sizeof(dir), "%.*s", (int)(p - path), path);
        if (mkdir(dir, 0700) < 0 && errno != EEXIST)
            return err_set_errno(err, errno, "cannot make %s", dir);
    }
    return 0;
}

/* A link to the original's file; diff would follow the links of a snapshot, perhaps in circles, so these are texts. */
static int put_entry(const struct side *s, const char *tree, const struct code_entry *e, FILE *programs,
                     struct err *err)
{
    char path[PATH], target[2 * PATH];
    const size_t root = (size_t)snprintf(path, sizeof(path), "%s/%s/", s->dir, s->letter);
    snprintf(path + root, sizeof(path) - root, "code/%s", e->path);
    snprintf(target, sizeof(target), "%s/%s", tree, e->path);
    if (e->kind == CODE_PROGRAM)
        fprintf(programs, "%s\n", e->path);
    if (make_parents(path, root, err) < 0)
        return -1;
    if (e->kind != CODE_LINK)
        return put_link(target, path, err);
    FILE *f = fopen(path, "we");
    if (!f || fprintf(f, "a link to %s\n", e->text) < 0 || fclose(f) != 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    return 0;
}

static int write_tree(const struct side *s, struct err *err)
{
    char original[PATH], path[PATH + 32], tree[PATH + 8];
    original_of(original, s);
    snprintf(tree, sizeof(tree), "%s/" CODE_TREE, original);
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, original);
    json_t *manifest = safe_open_json(path, 0, err);
    snprintf(path, sizeof(path), "%s/%s/programs", s->dir, s->letter);
    FILE *programs = manifest ? fopen(path, "we") : NULL;
    int rc = programs ? 0 : err_set_errno(err, errno, "cannot write %s", path);
    for (size_t i = 0; i < code_manifest_count(manifest) && rc == 0; i++) {
        const struct code_entry e = code_manifest_at(manifest, i);
        rc = put_entry(s, tree, &e, programs, err);
    }
    if (programs && fclose(programs) != 0 && rc == 0)
        rc = err_set_errno(err, errno, "cannot write %s", path);
    json_decref(manifest);
    return rc;
}

static int write_record(const struct side *s, struct err *err)
{
    char path[PATH], patch[PATH];
    snprintf(path, sizeof(path), "%s/%s/commit", s->dir, s->letter);
    FILE *f = fopen(path, "we");
    if (!f)
        return err_set_errno(err, errno, "cannot write %s", path);
    fprintf(f, "%s %s\n", field_text(s->code, "commit"), field_text(s->code, "branch"));
    if (fclose(f) != 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    snprintf(patch, sizeof(patch), "%s/diff.patch", field_text(s->code, "dir"));
    snprintf(path, sizeof(path), "%s/%s/changes.patch", s->dir, s->letter);
    return access(patch, R_OK) < 0 ? 0 : put_link(patch, path, err);
}

static bool has_snapshot(const struct side *s)
{
    return field_text(s->code, "snapshot")[0];
}

/* Snapshots are compared with each other, and so is what git said. */
static int check_code(const struct side sides[2], bool asked, struct err *err)
{
    for (int i = 0; i < 2; i++)
        if (asked && !field_text(sides[i].code, "commit")[0] && !has_snapshot(&sides[i]))
            return err_set(err, ERR_NOT_FOUND, "the code of job %lld was not recorded: its directory is in no git "
                           "repository, and its spec has no snapshot: true",
                           (long long)field_int(json_object_get(sides[i].answer, "job"), "id", 0));
    return 0;
}

static int write_sides(const struct call *call, const struct side sides[2], struct err *err)
{
    const bool spec = options_has(&call->options, "spec"), code = options_has(&call->options, "code");
    const bool trees = has_snapshot(&sides[0]) && has_snapshot(&sides[1]);
    int rc = spec ? 0 : check_code(sides, code, err);
    for (int i = 0; i < 2 && rc == 0; i++) {
        const struct side *s = &sides[i];
        char path[PATH];
        snprintf(path, sizeof(path), "%s/%s", s->dir, s->letter);
        if (mkdir(path, 0700) < 0)
            rc = err_set_errno(err, errno, "cannot make %s", path);
        if (rc == 0 && (spec || !code))
            rc = write_spec(s, err);
        if (rc == 0 && (code || !spec) && json_is_object(s->code))
            rc = trees ? write_tree(s, err) : write_record(s, err);
    }
    return rc;
}

/* ---- diff ---- */

/* 0 equal, 1 not; -1. */
static int run_diff(struct call *call, const char *dir, struct buf out[2])
{
    const struct subprocess_spec s = {
        .argv = (const char *const[]){"diff", "-urN", "a", "b", NULL}, .cwd = dir, .in = SUBPROCESS_NULL,
        .set = (const char *const[]){"LC_ALL=C", NULL}, .out = SUBPROCESS_PIPE, .err = SUBPROCESS_PIPE};
    struct err why = {.code = ERR_NONE};
    const int rc = subprocess_run(&s, out, DIFF_MS, &why);
    if (rc == 0 || rc == 1)
        return rc;
    return err_set(&call->err, ERR_SYSTEM, "cannot compare the jobs: diff: %s",
                   why.code ? why.text : subprocess_text(&out[1]));
}

/* Without the lines that repeat diff's command, and without the times in the two below, which are those of now. */
static void print_text(const struct terminal *t, const char *text)
{
    int names = 0;
    for (const char *line = text; *line; line += *line == '\n') {
        const int n = (int)strcspn(line, "\n");
        const bool command = strncmp(line, "diff -urN ", 10) == 0;
        if (!command)
            fprintf(t->file, "%.*s\n", names > 0 ? (int)strcspn(line, "\t\n") : n, line);
        names = command ? 2 : names - (names > 0);
        line += n;
    }
}

static const json_t *id_of(const struct side *s)
{
    return json_object_get(json_object_get(s->answer, "job"), "id");
}

static int compare(struct call *call, const struct side sides[2])
{
    struct buf out[2] = {{.data = NULL}, {.data = NULL}};
    int rc = write_sides(call, sides, &call->err) < 0 ? -1 : run_diff(call, sides[0].dir, out);
    const char *text = subprocess_text(&out[0]);
    if (rc >= 0 && call->json) {
        json_t *shown = json_text(text);
        output_json(call, json_make("{s:O, s:O, s:b, s:o}", "a", id_of(&sides[0]), "b", id_of(&sides[1]), "equal",
                                    (int)(rc == 0), "diff", shown ? shown : json_null()));
    } else if (rc >= 0)
        print_text(&call->out, text);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return rc;
}

static int run(struct call *call)
{
    struct side sides[2] = {{.letter = "a"}, {.letter = "b"}};
    const char *tmp = getenv("TMPDIR");
    char dir[PATH_MAX];
    int rc = -1;
    if (call->options.nargs != 2)
        return err_set(&call->err, ERR_USAGE, "diff compares two jobs: jobctl diff 7 8");
    snprintf(dir, sizeof(dir), "%.4000s/jobctl-diff-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (client_ask_job(&sides[0].answer, call->options.args[0], "", &call->err) < 0 ||
        client_ask_job(&sides[1].answer, call->options.args[1], "", &call->err) < 0)
        goto out;
    if (!mkdtemp(dir)) {
        err_set_errno(&call->err, errno, "cannot make %s", dir);
        goto out;
    }
    for (int i = 0; i < 2; i++) {
        memcpy(sides[i].dir, dir, sizeof(dir));
        sides[i].code = json_object_get(sides[i].answer, "code");
    }
    rc = compare(call, sides);
    scratch_remove(dir, NULL);
out:
    json_decref(sides[0].answer);
    json_decref(sides[1].answer);
    return rc;
}

const struct command cmd_diff = {
    .name = "diff", .group = GROUP_EXPLAIN, .where = COMMAND_THERE, .args = ARGS_JOBS, .words = "JOB JOB",
    .summary = "compare spec and code of two jobs",
    .help = "Prints a unified diff, as diff -u does: of the canonical specs, then of the code: the jobs' snapshots "
            "(snapshot: true), or else their git commits and uncommitted changes. Exit code: 0 equal, 1 different.",
    .options = options, .run = run,
};
