/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_remove.c - jobctl remove, jobctl prune: delete done jobs and their files
 *
 * For each job the daemon reports what it would delete and keep, and deletes.
 * prune first asks for a report on all matching jobs, page by page, and prints it;
 * then it removes exactly these jobs.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/cli/job_select.h"
#include "controller/cli/output.h"
#include "controller/cli/question.h"
#include "controller/job/job_view.h"
#include "engine/base/json_make.h"

enum { USUAL_AGE_S = 30 * 86400 };

#define OPTION_CHECKPOINTS \
    {"checkpoints", 0, OPTION_FLAG, NULL, "also delete the checkpoints in the job's own directory"}
#define OPTION_DRY_RUN \
    {"dry-run", 0, OPTION_FLAG, NULL, "only print what would be deleted, and its size"}

static const struct option_row remove_options[] = {
    OPTION_CHECKPOINTS,
    OPTION_DRY_RUN,
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};
static const struct option_row prune_options[] = {
    {"older-than", 0, OPTION_DURATION, "TIME",
     "jobs that ended longer ago; 30d unless --keep is given"},
    {"keep", 0, OPTION_COUNT, "N", "jobs other than the newest N"},
    {"result", 0, OPTION_TEXT, "RESULT", "only jobs that succeeded, failed or were cancelled"},
    OPTION_CHECKPOINTS,
    OPTION_DRY_RUN,
    {"yes", 'y', OPTION_FLAG, NULL, "do not ask"},
    OPTION_QUIET,
    OPTION_JSON,
    {.name = NULL},
};

/* POST .../remove; the answer is a new reference, or NULL. */
static json_t *ask(struct call *call, struct client *c, const json_t *row, bool dry_run, struct err *err)
{
    char path[64];
    json_t *answer;
    json_t *body = json_make("{s:b, s:b}", "checkpoints",
                             (int)options_has(&call->options, "checkpoints"), "dry_run",
                             (int)dry_run);
    snprintf(path, sizeof(path), "/v1/jobs/%lld/remove", (long long)json_integer_value(json_object_get(row, "id")));
    client_post(c, &answer, path, body, err);
    json_decref(body);
    json_object_del(answer, "schema");
    return answer;
}

static long long bytes_of(const json_t *object)
{
    return (long long)json_integer_value(json_object_get(object, "bytes"));
}

/* Bytes deleted with the job, checkpoints included. */
static long long gone(const json_t *answer)
{
    const json_t *checkpoints = json_object_get(answer, "checkpoints");
    return bytes_of(answer) +
           (json_is_false(json_object_get(checkpoints, "kept")) ? bytes_of(checkpoints) : 0);
}

static void say(struct call *call, const json_t *answer, bool dry_run)
{
    char title[JOB_CELL], size[32];
    const json_t *checkpoints = json_object_get(answer, "checkpoints");
    const char *dir = json_string_value(json_object_get(checkpoints, "dir"));
    FILE *out = call->out.file;
    if (call->json)
        return;
    if (options_has(&call->options, "quiet")) {
        fprintf(out, "%lld\n", (long long)json_integer_value(json_object_get(answer, "id")));
        return;
    }
    job_view_title(title, sizeof(title), answer);
    job_view_bytes(size, sizeof(size), bytes_of(answer));
    fprintf(out, "%s %s: %s in %s\n", title, dry_run ? "would be removed" : "is removed", size,
            json_string_value(json_object_get(answer, "dir")));
    if (json_is_true(json_object_get(answer, "pending")))
        fprintf(out, "  some of its files could not be removed; see daemon.log for the reason\n");
    if (!dir)
        return;
    size[0] = '\0';
    if (json_is_integer(json_object_get(checkpoints, "bytes"))) {
        snprintf(size, sizeof(size), ": ");
        job_view_bytes(size + 2, sizeof(size) - 2, bytes_of(checkpoints));
    }
    fprintf(out, "  checkpoints %s %s%s\n",
            json_is_true(json_object_get(checkpoints, "kept")) ? "stay in" : "are included:", dir, size);
}

static void say_sum(struct call *call, const json_t *answers, bool dry_run)
{
    char size[32];
    long long bytes = 0;
    size_t i;
    json_t *one;
    json_array_foreach (answers, i, one)
        bytes += gone(one);
    job_view_bytes(size, sizeof(size), bytes);
    if (!call->json && !options_has(&call->options, "quiet"))
        fprintf(call->out.file, "%zu job%s%s, %s\n", i, i == 1 ? "" : "s", dry_run ? "" : " removed", size);
}

static void print_json(struct call *call, json_t *jobs, json_t *stay, bool dry_run)
{
    if (call->json)
        output_json(call, json_make("{s:O, s:O, s:b}", "jobs", jobs, "stay", stay, "dry_run", (int)dry_run));
}

/* Removes each of `rows`. Jobs that cannot be removed are added to `stay` with the reason; the
 * first reason is *err. */
static json_t *ask_all(struct call *call, struct client *c, const json_t *rows, bool dry_run,
                       bool silent, json_t *stay, struct err *err)
{
    json_t *answers = json_array(), *row;
    size_t i;
    json_array_foreach (rows, i, row) {
        struct err why = {.code = ERR_NONE};
        json_t *answer = ask(call, c, row, dry_run, &why);
        if (answer) {
            if (!silent)
                say(call, answer, dry_run);
            json_array_append_new(answers, answer);
            continue;
        }
        err_set(err, why.code, "%s", why.text);
        json_array_append_new(stay, json_make("{s:O, s:O, s:s}", "id", json_object_get(row, "id"),
                                              "name", json_object_get(row, "name"), "text",
                                              why.text));
    }
    return answers;
}

/* Prints the jobs that cannot be removed, except the first, which is call->err. */
static void say_others(struct call *call, const json_t *stay)
{
    for (size_t i = 1; i < json_array_size(stay) && !call->json; i++)
        fprintf(stderr, "jobctl: %s\n", json_string_value(json_object_get(json_array_get(stay, i), "text")));
}

static int remove_named(struct call *call)
{
    struct client *c;
    json_t *rows = NULL, *answers = NULL, *stay = json_array();
    const bool dry_run = options_has(&call->options, "dry-run");
    int rc = -1;
    if (client_open(&c, true, &call->err) == 0 &&
        job_select(c, &rows, call->options.nargs, call->options.args, &call->err) == 0 &&
        job_select_expand(c, &rows, &call->err) == 0) {
        answers = ask_all(call, c, rows, dry_run, false, stay, &call->err);
        if (json_array_size(answers) > 1)
            say_sum(call, answers, dry_run);
        say_others(call, stay);
        if (call->err.code == ERR_NONE)
            print_json(call, answers, stay, dry_run);
        rc = call->err.code == ERR_NONE ? 0 : -1;
    }
    client_close(c);
    json_decref(rows);
    json_decref(answers);
    json_decref(stay);
    return rc;
}

/* ---- prune ---- */

struct wanted {
    double      before;     /* seconds since 1970: jobs that ended earlier */
    long long   keep;       /* skip this many of the newest */
    const char *result;     /* or NULL */
};

static int read_wanted(struct call *call, struct wanted *w)
{
    const struct options *o = &call->options;
    const double usual = options_has(o, "keep") ? 0 : USUAL_AGE_S;
    *w = (struct wanted){.before = (double)time(NULL) + 1 - options_seconds(o, "older-than", usual),
                         .keep = options_count(o, "keep", 0), .result = options_text(o, "result")};
    if (w->result && strcmp(w->result, "succeeded") != 0 && strcmp(w->result, "failed") != 0 &&
        strcmp(w->result, "cancelled") != 0)
        return err_set(&call->err, ERR_USAGE, "--result: \"%.40s\" is not one of succeeded, "
                       "failed and cancelled", w->result);
    return 0;
}

/* What the daemon would delete of each matching job, newest first; jobs that cannot be removed go to `stay`. */
static json_t *plan(struct call *call, struct client *c, const struct wanted *w, json_t *stay)
{
    json_t *found = json_array(), *answer;
    long long before = 0;
    do {
        if (client_get(c, &answer, &call->err, "/v1/prune?before=%lld&keep=%lld&ended_before_ms=%lld&checkpoints=%d"
                       "%s%s", before, w->keep, (long long)(w->before * 1000),
                       options_has(&call->options, "checkpoints"), w->result ? "&result=" : "",
                       w->result ? w->result : "") < 0) {
            json_decref(found);
            return NULL;
        }
        json_array_extend(found, json_object_get(answer, "jobs"));
        json_array_extend(stay, json_object_get(answer, "stay"));
        const char *hangs = json_string_value(json_object_get(answer, "files"));
        if (hangs && !call->json)
            fprintf(stderr, "jobctl: the sizes are not known: %s\n", hangs);
        before = (long long)json_integer_value(json_object_get(answer, "next"));
        json_decref(answer);
    } while (before > 0);
    return found;
}

/* 1: confirmed. */
static int confirm(struct call *call)
{
    if (!options_has(&call->options, "yes") && !question_possible(call))
        return err_set(&call->err, ERR_USAGE, "prune asks before it removes jobs, but stdin is "
                       "not a terminal; add --yes or --dry-run");
    return question_confirm(call, "Remove them?", "Nothing was removed.");
}

static void say_stay(struct call *call, const json_t *stay)
{
    size_t i;
    json_t *one;
    if (call->json || options_has(&call->options, "quiet"))
        return;
    json_array_foreach (stay, i, one)
        fprintf(call->out.file, "kept: %s\n", json_string_value(json_object_get(one, "text")));
}

static void say_each(struct call *call, const json_t *answers)
{
    size_t i;
    json_t *one;
    json_array_foreach (answers, i, one)
        say(call, one, true);
}

/* Reports first, then, if confirmed, removes the same jobs; each is printed once. */
static int prune_rows(struct call *call, struct client *c, json_t *rows, json_t *stay)
{
    const bool dry_run = options_has(&call->options, "dry-run");
    const bool quiet = options_has(&call->options, "quiet");
    const bool later = !dry_run && (quiet || options_has(&call->options, "yes"));
    const size_t count = json_array_size(rows);
    struct err ignored = {.code = ERR_NONE};
    json_t *done = json_incref(rows);
    int go = count == 0 || dry_run ? 0 : 1;
    if (!later)
        say_each(call, rows);
    say_stay(call, stay);
    if (count == 0 && !call->json && !quiet)
        fprintf(call->out.file, "No job matches.\n");
    else if (!later)
        say_sum(call, rows, true);
    if (go)
        go = confirm(call);
    if (go > 0) {
        json_decref(done);
        done = ask_all(call, c, rows, false, !later, stay, &ignored);
        say_sum(call, done, false);
    }
    if (go >= 0)
        print_json(call, done, stay, dry_run);
    json_decref(done);
    if (go >= 0 && ignored.code == ERR_SYSTEM) /* not that one of them is needed by another */
        return err_set(&call->err, ERR_SYSTEM, "%s", ignored.text);
    return go < 0 ? -1 : 0;
}

static int prune(struct call *call)
{
    struct client *c = NULL;
    struct wanted w;
    json_t *rows = NULL, *stay = json_array();
    int rc = -1;
    if (read_wanted(call, &w) == 0 && client_open(&c, true, &call->err) == 0 &&
        (rows = plan(call, c, &w, stay)))
        rc = prune_rows(call, c, rows, stay);
    client_close(c);
    json_decref(rows);
    json_decref(stay);
    return rc;
}

const struct command cmd_remove = {
    .name = "remove", .aliases = "rm", .args = ARGS_JOBS,
    .summary = "delete done jobs and their files",
    .help = "Deletes the job's record and its directory with the logs. Checkpoints stay, and their "
            "directory is printed, unless --checkpoints is given; a checkpoint.dir or mirror named "
            "in the spec is never touched. A job that is not done, or that another job needs, is "
            "not removed.",
    .options = remove_options, .run = remove_named,
};
const struct command cmd_prune = {
    .name = "prune", .args = ARGS_NONE,
    .summary = "delete old jobs and their files",
    .help = "Removes, like jobctl remove, the jobs that ended more than 30 days ago, or those that "
            "match all given options. Lists them first and asks for confirmation, unless --yes is "
            "given.",
    .options = prune_options, .run = prune,
};
