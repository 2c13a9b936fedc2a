/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_edit.c - jobctl edit: replace the spec of a job that has not started */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/os/subprocess.h"
#include "controller/base/client.h"
#include "controller/base/yaml.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/cli/question.h"
#include "controller/job/job_view.h"
#include "controller/submit/edit_text.h"
#include "controller/submit/local_check.h"
#include "controller/submit/submitter.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/safe_open.h"
#include "engine/base/write_all.h"

/* ---- the text in a file, and an editor on it ---- */

struct editor {
    char path[PATH_MAX];        /* below $TMPDIR or /tmp, which only the user can read */
};

/* Removes the file. */
static void editor_discard(struct editor *e)
{
    unlink(e->path);
    e->path[0] = '\0';
}

/* Writes the text into a new file, whose name ends in `name`. */
static int editor_init(struct editor *e, const char *name, const char *text, struct err *err)
{
    const char *dir = getenv("TMPDIR");
    snprintf(e->path, sizeof(e->path), "%.3000s/XXXXXX-%.200s", dir && dir[0] == '/' ? dir : "/tmp", name);
    const int fd = mkostemps(e->path, (int)strlen(name) + 1, O_CLOEXEC);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "cannot create a file in %.300s: %m", dir && dir[0] == '/' ? dir : "/tmp");
    const int rc = write_all(fd, text, strlen(text)) == 0
                       ? 0 : err_set(err, ERR_SYSTEM, "cannot write the text to be edited: %m");
    close(fd);
    if (rc < 0)
        editor_discard(e);
    return rc;
}

static const char *command(void)
{
    static const char *const names[] = {"VISUAL", "EDITOR"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *value = getenv(names[i]);
        if (value && value[strspn(value, " \t")])
            return value;
    }
    return "vi";
}

/* Runs $VISUAL, $EDITOR or vi on it, which may have arguments, and returns the edited text, for free(); NULL: it failed. */
static char *editor_run(const struct editor *e, struct err *err)
{
    char line[PATH_MAX];
    snprintf(line, sizeof(line), "exec %.4000s \"$1\"", command());
    const char *const argv[] = {"/bin/sh", "-c", line, "jobctl", e->path, NULL};
    const struct subprocess_spec spec = {.argv = argv, .in = STDIN_FILENO, .out = STDOUT_FILENO,
                                         .err = STDERR_FILENO};
    const pid_t pid = subprocess_start(&spec, err);
    const int code = pid < 0 ? -1 : subprocess_wait(pid);
    if (code != 0) {
        if (pid >= 0)
            err_set(err, ERR_USAGE, code == 127 ? "the editor '%.200s' was not found: set VISUAL or EDITOR"
                    : "the editor '%.200s' failed", command());
        return NULL;
    }
    FILE *f = safe_open_stream(e->path, err);
    return f ? yaml_read(f, e->path, err) : NULL;
}

/* ---- the command ---- */

static const struct option_row options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec, without an editor: --set priority=5"},
    OPTION_JSON,
    {.name = NULL},
};

enum { EXIT_REFUSED = 2 }; /* as of a wrong spec */

struct edit {
    struct call   *call;
    struct client *client;
    json_t        *job;         /* what GET /v1/jobs/JOB/spec says */
    char          *before;      /* the text that the editor got first */
    struct editor  editor;
};

static long long id_of(const struct edit *e)
{
    return (long long)json_integer_value(json_object_get(json_object_get(e->job, "job"), "id"));
}

/* ---- the text as a spec ---- */

/* Lines are those of the whole text, which begins with its overrides. */
static json_t *parse(const struct edit *e, const char *text, const json_t *set)
{
    const char *list[OPTIONS_LIST + 1];
    json_t *spec = NULL, *told = edit_text_overrides(set, json_object_get(e->job, "spec"));
    const size_t n = json_array_size(told);
    for (size_t i = 0; i < n && i <= OPTIONS_LIST; i++)
        list[i] = json_string_value(json_array_get(told, i));
    if (n > OPTIONS_LIST + 1)
        err_set(&e->call->err, ERR_USAGE, "%zu overrides; a submit takes at most %d", n, OPTIONS_LIST);
    else
        submitter_parse(&spec, text, "-", field_text(e->job, "base"), list, (int)n, &e->call->found,
                        &e->call->err);
    json_decref(told);
    return spec;
}

/* The body of the request, checked as that of a submit; NULL: the text has mistakes. */
static json_t *request_of(struct edit *e, const char *text)
{
    json_t *set, *request = NULL, *notes = json_array();
    const char *yaml = edit_text_split(&set, text);
    json_t *spec = parse(e, text, set);
    if (spec && !(request = json_make("{s:o, s:O, s:O, s:O}", "spec", json_string(text), "canonical", spec, "was",
                                      json_object_get(e->job, "yaml"), "set", set)))
        err_set(&e->call->err, ERR_USAGE, "the text is not valid UTF-8");
    if (request && (local_check(e->call, request, spec, notes) < 0 || local_check_memory(e->call, request, spec) < 0)) {
        json_decref(request);
        request = NULL;
    }
    if (request)
        json_object_set_new(request, "spec", json_string(yaml));
    local_check_print_notes(notes);
    json_decref(notes);
    json_decref(spec);
    json_decref(set);
    return request;
}

static json_t *store(struct edit *e, const char *text)
{
    char path[64];
    json_t *answer = NULL, *request = request_of(e, text);
    snprintf(path, sizeof(path), "/v1/jobs/%lld/edit", id_of(e));
    if (request && client_post(e->client, &answer, path, request, &e->call->err) < 0)
        e->call->found = *client_diagnostics(e->client);
    json_decref(request);
    return e->call->err.code ? NULL : answer;
}

/* ---- the user ---- */

static void say(struct edit *e, json_t *answer)
{
    char title[JOB_CELL];
    const json_t *keys = json_object_get(answer, "keys");
    size_t i;
    json_t *key;
    if (e->call->json) {
        output_json(e->call, json_make("{s:O, s:O}", "job", json_object_get(answer, "job"), "keys", keys));
        return;
    }
    job_view_title(title, sizeof(title), json_object_get(answer, "job"));
    fprintf(e->call->out.file, "%s is edited", title);
    json_array_foreach ((json_t *)(uintptr_t)keys, i, key)
        fprintf(e->call->out.file, "%s%s", i ? ", " : ": ", json_string_value(key));
    fputc('\n', e->call->out.file);
}

static void say_unchanged(struct edit *e)
{
    if (e->call->json)
        output_json(e->call, json_make("{s:O, s:[]}", "job", json_object_get(e->job, "job"), "keys"));
    else
        fprintf(e->call->out.file, "Nothing was changed.\n");
}

/* The mistake is shown; true: the editor is opened once more on the same text. A job that cannot be edited any more
 * is not asked about. */
static bool again(struct edit *e)
{
    struct call *call = e->call;
    if (!question_possible(call) || call->err.code == ERR_CONFLICT || call->err.code == ERR_NOT_FOUND)
        return false;
    output_failure(call);
    call->err = (struct err){.code = ERR_NONE};
    call->found = (struct diagnostics){.count = 0};
    return question_yes(call, "Edit again? (y/n)");
}

/* Nothing is lost. Returns the exit code. */
static int keep(struct edit *e)
{
    const bool unknown = e->call->err.code == ERR_SYSTEM;     /* the daemon may have stored it, and died */
    const int code = e->call->err.code ? output_failure(e->call) : EXIT_REFUSED;
    fprintf(stderr, unknown ? "jobctl show %lld --spec prints the current spec; your text is in %s\n"
            : "job %lld was not changed; your text is in %s\n", id_of(e), e->editor.path);
    return code;
}

/* Stores the text, if it is another one. */
static int apply(struct edit *e, const char *text)
{
    const bool same = strcmp(text, e->before) == 0;
    json_t *answer = same ? NULL : store(e, text);
    if (same)
        say_unchanged(e);
    else if (answer)
        say(e, answer);
    json_decref(answer);
    return same || answer ? 0 : -1;
}

static int edit_until_stored(struct edit *e)
{
    for (;;) {
        char *text = editor_run(&e->editor, &e->call->err);
        const int rc = text ? apply(e, text) : -1;
        free(text);
        if (rc == 0) {
            editor_discard(&e->editor);
            return 0;
        }
        if (!again(e))
            return keep(e);
    }
}

/* With --set. */
static int set_keys(struct edit *e)
{
    const struct options *o = &e->call->options;
    json_t *set = edit_text_merge(json_object_get(e->job, "set"), o->list, o->nlist);
    char *text = set ? edit_text_make(field_text(e->job, "yaml"), set) : NULL;
    const int rc = text ? apply(e, text) : err_set(&e->call->err, ERR_USAGE, "--set is not valid UTF-8");
    json_decref(set);
    free(text);
    return rc;
}

static int edit(struct edit *e)
{
    struct call *call = e->call;
    e->before = edit_text_make(field_text(e->job, "yaml"), json_object_get(e->job, "set"));
    snprintf(call->file, sizeof(call->file), "job%lld.yaml", id_of(e));
    if (!e->before)
        return err_set(&call->err, ERR_MEMORY, "out of memory for a spec");
    if (call->options.nlist > 0)
        return set_keys(e);
    if (editor_init(&e->editor, call->file, e->before, &call->err) < 0)
        return -1;
    snprintf(call->file, sizeof(call->file), "%.511s", e->editor.path);
    return edit_until_stored(e);
}

static int run(struct call *call)
{
    struct edit e = {.call = call};
    char *part = client_job_part(call->options.args[0], &call->err);
    int rc = -1;
    if (part && client_open(&e.client, true, &call->err) == 0 &&
        client_get(e.client, &e.job, &call->err, "/v1/jobs/%s/spec", part) == 0)
        rc = edit(&e);
    free(part);
    free(e.before);
    json_decref(e.job);
    client_close(e.client);
    return rc;
}

const struct command cmd_edit = {
    .name = "edit", .group = GROUP_CHANGE, .args = ARGS_JOB,
    .summary = "change the spec of a job that has not started",
    .help = "Opens the submitted text in $VISUAL, $EDITOR or vi; with --set changes only these keys. The overrides given at submission (--set) are "
            "comments above the text, and can be changed too. The new text is checked as by submit, and stored only if "
            "it has no mistakes. The job keeps its id, its place among jobs of the same priority, and the environment "
            "and code from its submission: secrets, env_from, launch and snapshot cannot change. A text with mistakes "
            "is not lost: edit it again, or find it in the file that the message names.",
    .options = options, .run = run,
};
