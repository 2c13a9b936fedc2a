/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - jobctl doctor: is this machine fit for jobs, and for this one?
 *
 * jobctl-agent looks and judges (agent/doctor.h); no daemon is needed, so that
 * there is an answer when nothing else works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/buf.h"
#include "controller/command.h"
#include "controller/home.h"
#include "controller/output.h"
#include "controller/program.h"
#include "controller/spec_file.h"

enum { EXIT_UNFIT = 1 };

static const struct option_row options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set train.steps=100"},
    OPTION_JSON,
    {.name = NULL},
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Where state is kept, or will be: the nearest directory above that is there. */
static int nearest_home(char *out, size_t size, struct err *err)
{
    if (home_dir(out, size, err) < 0)
        return -1;
    while (access(out, F_OK) < 0 && strrchr(out, '/') > out)
        *strrchr(out, '/') = '\0';
    return 0;
}

static int ask_agent(struct call *call, json_t **answer, const char *spec_path)
{
    char home[PROGRAM_PATH];
    char state[PROGRAM_PATH];
    const char *words[8] = {"doctor", "--dir", home};
    struct buf out;
    int n = 3, status = 0;
    buf_init(&out);
    if (home_dir(state, sizeof(state), &call->err) < 0 ||
        nearest_home(home, sizeof(home), &call->err) < 0)
        return -1;
    if (spec_path) {
        words[n++] = "--spec";
        words[n++] = spec_path;
    }
    if (access(state, F_OK) == 0) { /* what was tried is kept there, for agents (agent/known.h) */
        words[n++] = "--state";
        words[n++] = state;
    }
    int rc = program_run("jobctl-agent", words, &out, &status, &call->err);
    *answer = rc == 0 ? json_loadb(out.data ? out.data : "", out.size, 0, NULL) : NULL;
    if (rc == 0 && !*answer)
        rc = err_set(&call->err, ERR_SYSTEM, "jobctl-agent did not answer (status %d): run "
                     "`jobctl-agent doctor` to see why", status);
    buf_fini(&out);
    return rc;
}

static enum terminal_style style_of(const char *status)
{
    return strcmp(status, "ok") == 0     ? STYLE_GREEN
           : strcmp(status, "fail") == 0 ? STYLE_RED
           : strcmp(status, "warn") == 0 ? STYLE_YELLOW
                                         : STYLE_DIM;
}

static void print(const struct terminal *t, const json_t *answer)
{
    enum { CHECK = 16, INDENT = 9 + CHECK };
    int fail = (int)json_integer_value(json_object_get(answer, "fail"));
    int warn = (int)json_integer_value(json_object_get(answer, "warn"));
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(answer, "rows"), i, row) {
        const char *status = text_of(row, "status"), *todo = text_of(row, "todo");
        fprintf(t->file, "%s%-8s%s %-*s%s\n", terminal_style(t, style_of(status)), status,
                terminal_style(t, STYLE_PLAIN), CHECK, text_of(row, "check"), text_of(row, "seen"));
        if (todo[0])
            fprintf(t->file, "%*s-> %s\n", INDENT, "", todo);
    }
    if (fail)
        fprintf(t->file, "%d of %zu checks failed", fail, i);
    else
        fprintf(t->file, "nothing stands in the way");
    if (warn)
        fprintf(t->file, "; %d to look at", warn);
    fputc('\n', t->file);
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    char path[PROGRAM_PATH];
    json_t *request = NULL, *spec = NULL, *answer = NULL;
    bool has_spec = o->nargs == 1;
    if (has_spec && (spec_file_request(call, o->args[0], o->list, o->nlist, &request, &spec) < 0 ||
                     program_spec_file(path, spec, &call->err) < 0)) {
        json_decref(request);
        json_decref(spec);
        return -1;
    }
    int rc = ask_agent(call, &answer, has_spec ? path : NULL);
    if (has_spec)
        unlink(path);
    if (rc == 0) {
        rc = json_integer_value(json_object_get(answer, "fail")) > 0 ? EXIT_UNFIT : 0;
        if (call->json)
            output_json(call, json_incref(answer));
        else
            print(&call->out, answer);
    }
    json_decref(request);
    json_decref(spec);
    json_decref(answer);
    return rc;
}

const struct command cmd_doctor = {
    .name = "doctor", .args = ARGS_FILE_OR_NONE,
    .summary = "is this machine fit for jobs, and for this one?",
    .help = "Looks at programs, processors, memory, disk, driver, GPUs, network and clock; with FILE "
            "also at its plan, its data, and the room that it needs. Each check is ok, warn, fail or "
            "unknown, with what was seen and what to do. Exit code 1 if a check failed. No daemon is "
            "needed.",
    .options = options, .run = run,
};
