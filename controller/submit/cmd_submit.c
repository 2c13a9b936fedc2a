/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_submit.c - jobctl submit: check a spec, send it to the daemon, follow the job if requested */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/base/submit_key.h"
#include "controller/cli/command.h"
#include "controller/cli/job_wait.h"
#include "controller/cli/output.h"
#include "controller/spec/spec_after.h"
#include "controller/submit/local_check.h"
#include "controller/submit/send_job.h"
#include "controller/submit/spec_file.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set train.steps=100"},
    {"dry-run", 0, OPTION_FLAG, NULL, "check and print the canonical spec; submit nothing"},
    {"after", 0, OPTION_TEXT, "JOBS", "start once these have succeeded: 7,prep; afterany:7: ended; afternotok:7: "
                                      "failed"},
    {"hold", 0, OPTION_FLAG, NULL, "submit the job held; jobctl hold --off lets it start"},
    {"key", 0, OPTION_TEXT, "KEY", "repeat an interrupted submit safely: one key and spec give one job; several files: "
                                   "KEY.1, KEY.2, ..."},
    {"follow", 'f', OPTION_FLAG, NULL, "follow the job until it is done; Ctrl-C does not stop it"},
    {"wait", 'w', OPTION_FLAG, NULL, "wait silently until the job is done; exit with its code"},
    {"quiet", 'q', OPTION_FLAG, NULL, "print the id only; with --follow, the job's output only"},
    OPTION_JSON,
    {.name = NULL},
};

static void print_spec(const struct call *call, json_t *answer)
{
    if (!options_has(&call->options, "quiet")) {
        json_dumpf(json_object_get(answer, "spec"), call->out.file, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        fputc('\n', call->out.file);
    }
    fflush(call->out.file);
    local_check_print_notes(json_object_get(answer, "notes"));
}

/* The daemon's check: it knows the machines and the jobs that others come after. */
static json_t *check(struct call *call, struct client *c, const json_t *request)
{
    json_t *answer = NULL, *dry = json_copy((json_t *)(uintptr_t)request);
    json_object_set_new(dry, "dry_run", json_true());
    if (spec_file_post(call, c, &answer, dry) < 0)
        answer = NULL;
    json_decref(dry);
    return answer;
}

/* ---- the files ---- */

struct batch {
    json_t *requests;       /* one per file; NULL until all are read */
    json_t *notes;          /* of local_check(), a list per file */
    json_t *rows;           /* of the jobs submitted so far */
};

/* Its place in messages: each file's own. */
static void name_file(struct call *call, int i)
{
    snprintf(call->file, sizeof(call->file), "%s", call->options.args[i]);
}

static int check_args(struct call *call)
{
    const struct options *o = &call->options;
    int stdins = 0;
    for (int i = 0; i < o->nargs; i++)
        stdins += strcmp(o->args[i], "-") == 0;
    if (stdins > 1)
        return err_set(&call->err, ERR_USAGE, "- is given %d times, but standard input can be read only once", stdins);
    if (o->nargs > 1 && options_has(o, "follow"))
        return err_set(&call->err, ERR_USAGE, "--follow shows one job, not %d; --wait waits for all", o->nargs);
    return 0;
}

static int read_file(struct call *call, struct batch *b, const char *file, const char *const *set, int nset)
{
    const struct options *o = &call->options;
    json_t *request, *spec = NULL, *notes = json_array();
    int rc = spec_file_request(call, file, set, nset, &request, &spec);
    if (rc == 0) {
        rc = local_check(call, request, spec, notes);
        if (rc == 0)
            rc = local_check_memory(call, request, spec);
        if (options_has(o, "hold"))
            json_object_set_new(request, "hold", json_true());
        json_array_append_new(b->requests, request);
    }
    json_array_append_new(b->notes, notes);
    json_decref(spec);
    return rc;
}

static int read_files(struct call *call, struct batch *b)
{
    const char *set[OPTIONS_LIST + 1];
    char after[AFTER_TEXT];
    const int nset = spec_file_set(call, set, after);
    int rc = nset < 0 ? -1 : 0;
    for (int i = 0; i < call->options.nargs && rc == 0; i++)
        rc = read_file(call, b, call->options.args[i], set, nset);
    return rc;
}

static const char *name_of(const struct batch *b, size_t at)
{
    return field_text(json_object_get(json_array_get(b->requests, at), "canonical"), "name");
}

/* Does it come after a file of this call?  Then the daemon cannot check it before that one is stored. */
static bool waits_for_another(const struct batch *b, size_t at)
{
    const json_t *after = json_object_get(json_object_get(json_array_get(b->requests, at), "canonical"), "after");
    for (size_t k = 0; k < json_array_size(after); k++) {
        const char *text = json_string_value(json_array_get(after, k)), *word = NULL;
        if (text)
            spec_after_parse(&word, text);
        if (word && at > 0 && strcmp(word, "last") == 0)
            return true;
        for (size_t i = 0; word && i < at; i++)
            if (strcmp(word, name_of(b, i)) == 0)
                return true;
    }
    return false;
}

/* Several files: all are sound before the first is stored. */
static int check_all(struct call *call, struct client *c, const struct batch *b)
{
    for (size_t i = 0; i < json_array_size(b->requests); i++) {
        if (waits_for_another(b, i))
            continue;
        name_file(call, (int)i);
        json_t *answer = check(call, c, json_array_get(b->requests, i));
        if (!answer)
            return call->found.count ? -1 : err_prefix(&call->err, "%s: ", call->file);
        json_decref(answer);
    }
    return 0;
}

static int dry_run(struct call *call, struct client *c, const struct batch *b)
{
    json_t *answers = json_array(), *answer;
    size_t i;
    for (i = 0; i < json_array_size(b->requests); i++) {
        name_file(call, (int)i);
        if (!(answer = check(call, c, json_array_get(b->requests, i))))
            break;
        json_array_extend(json_object_get(answer, "notes"), json_array_get(b->notes, i));
        json_array_append_new(answers, answer);
        if (!call->json)
            print_spec(call, answer);
    }
    const int rc = i == json_array_size(b->requests) ? 0 : -1;
    if (rc == 0 && call->json)
        output_json(call, i == 1 ? json_incref(json_array_get(answers, 0)) : json_make("{s:O}", "jobs", answers));
    json_decref(answers);
    return rc;
}

/* ---- submitting ---- */

/* After a failure the user knows which files are jobs already. */
static int stopped_at(struct call *call, size_t at)
{
    if (at > 0 && !call->json)
        fprintf(stderr, "jobctl: the first %zu of %d files were submitted; the others were not\n", at,
                call->options.nargs);
    return -1;
}

static int wait_all(struct call *call, struct client *c, const struct batch *b, const struct send_wish *wish)
{
    int code = 0;
    for (size_t i = 0; i < json_array_size(b->rows); i++) {
        json_t *row = json_incref(json_array_get(b->rows, i));
        const int one = send_job_look_on(call, c, &row, wish);
        json_array_set_new(b->rows, i, row);
        if (one < 0)
            return -1;
        code = job_wait_worse(code, one);
    }
    return code;
}

/* Of file number `at`; 0: of the only one. NULL: none is given. */
static const char *key_of(char key[SUBMIT_KEY_SIZE + 24], const struct options *o, size_t at)
{
    const char *given = options_text(o, "key");
    if (!given || at == 0)
        return given;
    snprintf(key, SUBMIT_KEY_SIZE + 24, "%.*s.%zu", SUBMIT_KEY_SIZE, given, at);
    return key;
}

static int submit(struct call *call, struct client *c, struct batch *b)
{
    const struct options *o = &call->options;
    const size_t count = json_array_size(b->requests);
    const bool several = count > 1;
    const json_t *canonical = json_object_get(json_array_get(b->requests, 0), "canonical");
    struct send_wish wish = {.quiet = options_has(o, "quiet"),
                                   .output = json_is_string(json_object_get(canonical, "run")),
                             .follow = options_has(o, "follow"), .wait = options_has(o, "wait"), .several = several};
    char key[SUBMIT_KEY_SIZE + 24];
    int code = several ? check_all(call, c, b) : 0;
    for (size_t i = 0; i < count && code >= 0; i++) {
        json_t *row;
        name_file(call, (int)i);
        wish.key = key_of(key, o, several ? i + 1 : 0);
        code = send_job(call, c, json_array_get(b->requests, i), json_array_get(b->notes, i), &wish, &row);
        if (row)
            json_array_append_new(b->rows, row);
        if (code < 0)
            return stopped_at(call, i);
    }
    if (code >= 0 && several && wish.wait)
        code = wait_all(call, c, b, &wish);
    if (code >= 0 && call->json)
        output_json(call, several ? json_make("{s:O}", "jobs", b->rows)
                                  : json_make("{s:O}", "job", json_array_get(b->rows, 0)));
    return code;
}

static int run(struct call *call)
{
    struct batch b = {.requests = json_array(), .notes = json_array(), .rows = json_array()};
    struct client *c = NULL;
    int rc = -1;
    if (check_args(call) == 0 && read_files(call, &b) == 0 && client_open(&c, true, &call->err) == 0)
        rc = options_has(&call->options, "dry-run") ? dry_run(call, c, &b) : submit(call, c, &b);
    client_close(c);
    json_decref(b.requests);
    json_decref(b.notes);
    json_decref(b.rows);
    return rc;
}

const struct command cmd_submit = {
    .name = "submit", .group = GROUP_START, .args = ARGS_FILES,
    .summary = "check a job spec and queue it",
    .help = "FILE is YAML, - is standard input; jobctl help spec lists its keys. The file is copied; later edits have "
            "no effect. A program that is not in PATH, a host without an address and Slurm without a configuration are "
            "refused like mistakes in the file. If several files are given, all are checked before the first is "
            "submitted. With --follow and --wait the exit code is the job's: 0 succeeded, 1 failed, 3 cancelled, 93 "
            "retry limit reached (do not requeue).",
    .options = options, .run = run,
};
