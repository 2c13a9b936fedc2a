/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_doctor.c - jobctl doctor: check whether this machine can run jobs, or a given job
 *
 * jobctl-agent makes the checks (agent/doctor/doctor.h), here or on all hosts of the spec
 * (doctor_hosts.h). No daemon is needed, so doctor works when nothing else does.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/base/home.h"
#include "controller/base/program.h"
#include "controller/checks/doctor_hosts.h"
#include "controller/checks/doctor_notify.h"
#include "controller/checks/doctor_slurm.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/remote/remote.h"
#include "controller/submit/spec_file.h"
#include "controller/submit/submit_code.h"
#include "engine/base/buf.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"
#include "engine/base/json_text.h"

/* ---- the store of this home ---- */

/* Adds the row to the answer of a doctor, {rows, fail, warn}; none where no daemon runs. */
static int doctor_store_add(json_t *answer, struct err *err)
{
    struct client *c = NULL;
    struct err none = { 0 };
    json_t *seen = NULL;
    if (client_open(&c, false, &none) < 0)
        return 0;
    const int rc = client_get(c, &seen, err, "/v1/store");
    client_close(c);
    if (rc < 0)
        return -1;
    const char *text = field_text(seen, "text"), *status = text[0] ? "warn" : "ok";
    json_t *row = json_make("{s:s, s:s, s:s, s:s}", "check", "store", "status", status, "seen",
                            text[0] ? text : "the daemon has found all jobs in it", "todo",
                            text[0] ? "nothing; `jobctl why JOB` shows what each job has lost" : "");
    if (text[0])
        json_object_set_new(answer, status, json_integer(field_int(answer, status, 0) + 1));
    json_decref(seen);
    return json_array_append_new(json_object_get(answer, "rows"), row);
}

/* ---- the command ---- */

enum { EXIT_UNFIT = 1 };

static const struct option_row options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set train.steps=100"},
    OPTION_JSON,
    {.name = NULL},
};

/* The state directory, or its nearest existing parent. */
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
    int n = 3;
    buf_init(&out);
    if (home_dir(state, sizeof(state), &call->err) < 0 ||
        nearest_home(home, sizeof(home), &call->err) < 0)
        return -1;
    if (spec_path) {
        words[n++] = "--spec";
        words[n++] = spec_path;
    }
    /* holds probe results for agents (agent/plan/probe_cache.h) */
    if (access(state, F_OK) == 0) {
        words[n++] = "--state";
        words[n++] = state;
    }
    const int code = program_run("jobctl-agent", words, &out, &call->err);
    int rc = code < 0 ? -1 : 0;
    *answer = rc == 0 ? json_loadb(out.data ? out.data : "", out.size, 0, NULL) : NULL;
    if (rc == 0 && !*answer)
        rc = err_set(&call->err, ERR_SYSTEM, "jobctl-agent did not answer (status %d): run "
                     "`jobctl-agent doctor` to see why", code);
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

/* Length of the longest node name; 0: rows have none. */
static int name_width(const json_t *answer)
{
    int width = 0;
    size_t i;
    const json_t *row;
    json_array_foreach (json_object_get(answer, "rows"), i, row) {
        const int n = (int)strlen(field_text(row, "node"));
        width = n > width ? n : width;
    }
    return width;
}

static bool says_the_same(const json_t *a, const json_t *b)
{
    static const char *const keys[] = {"status", "check", "seen", "todo"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(field_text(a, keys[i]), field_text(b, keys[i])) != 0)
            return false;
    return true;
}

/* The number of hosts: each has a row for its programs, or one that says it is unreachable. */
static int count_hosts(const json_t *rows)
{
    int n = 0;
    size_t i;
    const json_t *row;
    const char *before = "all";
    json_array_foreach (rows, i, row) {
        const char *node = field_text(row, "node");
        n += strcmp(node, "all") != 0 && strcmp(node, before) != 0;
        before = node;
    }
    return n;
}

/* A row that all hosts share is printed once, for "all"; "" marks its repetitions. */
static const char *name_of(const json_t *rows, size_t at, int hosts)
{
    const json_t *row = json_array_get(rows, at), *other;
    const char *node = field_text(row, "node");
    int same = 0;
    size_t i, first = at;
    if (!node[0] || strcmp(node, "all") == 0 || hosts < 2)
        return node;
    json_array_foreach (rows, i, other)
        if (says_the_same(row, other)) {
            first = same++ ? first : i;
        }
    return same < hosts ? node : first == at ? "all" : "";
}

static void print(const struct terminal *t, const json_t *answer)
{
    enum { CHECK = 16 };
    const int width = name_width(answer), name = width ? width + 1 : 0, indent = 9 + name + CHECK;
    int fail = (int)json_integer_value(json_object_get(answer, "fail"));
    int warn = (int)json_integer_value(json_object_get(answer, "warn"));
    const json_t *rows = json_object_get(answer, "rows"), *row;
    const int hosts = width ? count_hosts(rows) : 0;
    size_t i;
    json_array_foreach (rows, i, row) {
        const char *status = field_text(row, "status"), *todo = field_text(row, "todo");
        const char *node = name_of(rows, i, hosts);
        if (width && !node[0])
            continue;
        fprintf(t->file, "%s%-8s%s %-*s%-*s", terminal_style(t, style_of(status)), status,
                terminal_style(t, STYLE_PLAIN), name, node, CHECK, field_text(row, "check"));
        terminal_hang(t, field_text(row, "seen"), indent);
        if (todo[0]) {
            fprintf(t->file, "%*s-> ", indent, "");
            terminal_hang(t, todo, indent + 3);
        }
    }
    if (fail)
        fprintf(t->file, "%d of %zu checks failed", fail, i);
    else
        fprintf(t->file, "all checks passed");
    if (warn)
        fprintf(t->file, "; %d warning%s", warn, warn == 1 ? "" : "s");
    fputc('\n', t->file);
}

/* On this machine; *answer is NULL after a failure. */
static int look_here(struct call *call, const json_t *spec, json_t **answer)
{
    char path[PROGRAM_PATH];
    *answer = NULL;
    if (spec && program_spec_file(path, spec, &call->err) < 0)
        return -1;
    int rc = ask_agent(call, answer, spec ? path : NULL);
    if (spec)
        unlink(path);
    return rc;
}

/* On the hosts where the job would run. */
static json_t *look(struct call *call, const json_t *spec)
{
    const struct remote *remote = spec ? remote_of_spec(spec) : &remote_local;
    json_t *here, *answer;
    if (remote == &remote_ssh)
        return doctor_hosts(spec, &call->err);
    if (look_here(call, spec, &here) < 0 || remote == &remote_local)
        return here;
    answer = doctor_slurm(here, spec, &call->err);
    json_decref(here);
    return answer;
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    json_t *request = NULL, *spec = NULL;
    if (o->nargs == 1 &&
        spec_file_request(call, o->args[0], o->list, o->nlist, &request, &spec) < 0)
        return -1;
    if (spec && submit_code_is_sent(spec))
        json_object_set_new(spec, "workdir", json_text(""));
    json_t *answer = look(call, spec);
    if (answer && o->nargs == 0 &&
        (doctor_store_add(answer, &call->err) < 0 || doctor_notify_add(answer, &call->err) < 0)) {
        json_decref(answer);
        answer = NULL;
    }
    int rc = !answer ? -1 : json_integer_value(json_object_get(answer, "fail")) > 0 ? EXIT_UNFIT : 0;
    if (answer && call->json)
        output_json(call, json_incref(answer));
    else if (answer)
        print(&call->out, answer);
    json_decref(request);
    json_decref(spec);
    json_decref(answer);
    return rc;
}

const struct command cmd_doctor = {
    .name = "doctor", .group = GROUP_EXPLAIN, .where = COMMAND_THERE, .args = ARGS_FILE_OR_NONE,
    .summary = "check whether this machine can run jobs, or the job in FILE",
    .help = "Checks programs, processors, memory, disk, driver, GPUs, network and clock; with FILE also its plan, its "
            "data and the disk space it needs. Each check is ok, warn, fail or unknown, with the finding and the fix. "
            "The exit code is 1 if a check failed. With launch: ssh doctor checks all hosts of FILE and compares them: "
            "programs, plan, clocks, connections between them, checkpoint.dir and data. With launch: slurm it checks "
            "what is visible on the submitting machine. No daemon is needed.",
    .options = options, .run = run,
};
