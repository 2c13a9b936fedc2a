/* SPDX-License-Identifier: Apache-2.0 */
/* local_check.c - see local_check.h */
#include "controller/submit/local_check.h"

#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container/container_choice.h"
#include "agent/container/container_found.h"
#include "agent/os/subprocess.h"
#include "controller/base/far_host.h"
#include "controller/base/home.h"
#include "controller/base/program.h"
#include "controller/cli/command.h"
#include "controller/remote/hub_pin.h"
#include "controller/remote/remote.h"
#include "controller/spec/jobspec.h"
#include "controller/spec/run_command.h"
#include "controller/submit/submitter.h"
#include "engine/base/buf.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"
#include "engine/base/text_append.h"
#include "engine/contract/install.h"

enum { RESOLVE_MS = 5000, PLAN_MS = 20000, SETS = 256, HOSTS = 1024 };

void local_check_refuse(struct call *call, const json_t *request, const char *key, const char *fmt, ...)
{
    const json_t *list = json_object_get(request, "set");
    const char *set[SETS];
    struct err why = {.code = ERR_NONE};
    char text[sizeof(why.text)];
    const size_t n = json_array_size(list) < SETS ? json_array_size(list) : SETS;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    err_set(&why, ERR_USAGE, "%s: %s", key, text);
    for (size_t i = 0; i < n; i++)
        set[i] = json_string_value(json_array_get(list, i));
    jobspec_add_mistake(&call->found, field_text(request, "spec"), set, (int)n, key, &why);
}

/* The models of a hub that a spec names, at the place where they are written (hub_pin.h). */
struct place {
    struct call  *call;
    const json_t *request;
};

static void on_mistake(void *arg, const char *key, const char *text)
{
    const struct place *p = arg;
    local_check_refuse(p->call, p->request, key, "%s", text);
}

/* The command that downloads what a plan lacks, with the changes of this call. */
static void note_fetch(const struct call *call, const json_t *request, json_t *notes)
{
    char sets[800] = "";
    size_t i;
    const json_t *set;
    json_array_foreach (json_object_get(request, "set"), i, set)
        text_append(sets, sizeof(sets), " --set '%s'", json_string_value(set));
    json_array_append_new(notes, json_text_f("nothing is downloaded now; to download it: jobctl fetch %s%s",
                                             call->file, sets));
}

/* A request with `plan` gets a note where a file is missing without network. */
static void hub_check(struct call *call, const json_t *request, json_t *spec, json_t *notes)
{
    struct place p = {call, request};
    const bool plan = field_true(request, "plan");
    if (hub_pin(spec, NULL, plan, notes, on_mistake, &p) && plan)
        note_fetch(call, request, notes);
}

/* ---- the program ---- */

static bool is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* As the shell looks in a job's directory: an empty or relative entry of PATH starts there. */
static bool in_path(const char *path, const char *workdir, const char *program)
{
    char file[3 * PATH_MAX];
    for (const char *p = path;; p++) {
        const int n = (int)strcspn(p, ":");
        snprintf(file, sizeof(file), "%s%s%.*s/%s", *p == '/' ? "" : workdir, *p == '/' ? "" : "/", n, p, program);
        if (is_program(file))
            return true;
        p += n;
        if (!*p)
            return false;
    }
}

/* A file that bash reads first, or a function that it inherits, may define anything. */
static bool may_be_function(const char *program)
{
    char name[256];
    snprintf(name, sizeof(name), "BASH_FUNC_%s%%%%", program);
    return getenv("BASH_ENV") || getenv(name) || getenv("BASH_FUNC_command_not_found_handle%%");
}

/* What could bring the program until the job begins, or another PATH. */
static bool may_come(const json_t *spec)
{
    const json_t *env = json_object_get(spec, "env");
    return json_string_length(json_object_get(spec, "setup")) > 0 ||
           json_array_size(json_object_get(spec, "after")) > 0 || json_object_get(env, "PATH") != NULL ||
           json_object_get(env, "BASH_ENV") != NULL || strcmp(field_text(spec, "env_from"), "clean") == 0;
}

static void check_program(struct call *call, const json_t *request, const json_t *spec)
{
    char program[128], three[136], other[160] = "";
    const char *path = getenv("PATH"), *workdir = field_text(spec, "workdir");
    if (!path || !path[0] || remote_of_spec(spec) != &remote_local || may_come(spec) ||
        json_is_object(json_object_get(spec, "image")) ||
        !run_command_program(program, sizeof(program), field_text(spec, "run")) || may_be_function(program) ||
        in_path(path, workdir, program))
        return;
    snprintf(three, sizeof(three), "%s3", program);
    if (in_path(path, workdir, three))
        snprintf(other, sizeof(other), ", but %s is; use that", three);
    local_check_refuse(call, request, "run", "%s is not in PATH%s", program,
                       other[0] ? other : "; install it, or write its path");
}

/* ---- the container runtime ---- */

/* The daemon decides again, where it starts the job; here the file and its line can be named. */
static void check_runtime(struct call *call, const json_t *request, const json_t *spec)
{
    char why[400];
    struct err err = {.code = ERR_NONE};
    const json_t *image = json_object_get(spec, "image");
    json_t *found = json_is_object(image) && remote_of_spec(spec) == &remote_local ? container_found() : NULL;
    if (found && !container_choice(found, image, why, sizeof(why), &err))
        local_check_refuse(call, request, container_choice_key(image), "%s", err.text);
    json_decref(found);
}

/* ---- launchers ---- */

static int64_t ranks_of(const json_t *spec)
{
    const json_t *resources = json_object_get(spec, "resources"), *ranks = json_object_get(resources, "ranks");
    return json_is_integer(ranks) ? json_integer_value(ranks)
                                  : json_integer_value(json_object_get(resources, "gpus"));
}

static void check_launcher(const json_t *spec, json_t *notes)
{
    char name[128], each[32] = "several";
    const int64_t ranks = ranks_of(spec), n = run_command_launcher(name, sizeof(name), field_text(spec, "run"));
    if (ranks < 2 || n == 0 || n == 1)
        return;
    if (n > 0)
        snprintf(each, sizeof(each), "%lld", (long long)n);
    json_array_append_new(notes, json_text_f(
        "run: %s starts %s processes in each of the %lld ranks, which have RANK and WORLD_SIZE already; write the "
        "script without %s, or set resources.ranks: 1", name, each, (long long)ranks, name));
}

/* ---- weights, encoders and memory ---- */

/* The engine's sentence begins with its own name and the key. */
static bool key_of(char key[64], const char *said, int *skip)
{
    return sscanf(said, "jobctl-train inspect: %63[a-z_.]: %n", key, skip) == 1 && *skip > 0 &&
           strncmp(key, "train.", 6) == 0;
}

/* `setup` and other jobs may bring the data and its encoders; weights are refused as everywhere. */
static void refuse_named(struct call *call, const json_t *request, const json_t *spec, const char *said)
{
    char key[64];
    int n = 0;
    const bool come = json_string_length(json_object_get(spec, "setup")) > 0 ||
                      json_array_size(json_object_get(spec, "after")) > 0;
    if (key_of(key, said, &n) && !(come && strncmp(key, "train.data.", 11) == 0))
        local_check_refuse(call, request, key, "%.*s", (int)strcspn(said + n, "\n"), said + n);
}

static bool names_files(const json_t *spec)
{
    const json_t *train = json_object_get(spec, "train"), *data = json_object_get(train, "data");
    const char *encoders = field_text(data, "encoders");
    return json_is_string(json_object_get(json_object_get(train, "model"), "weights")) ||
           strcmp(encoders, "sana") == 0 || strcmp(encoders, "lumina") == 0 || strcmp(encoders, "features") == 0;
}

/* Ranks and GPU memory of a run on this machine, as the agent would plan it; ranks 0: not planned, or elsewhere. */
struct machine {
    long long ranks, neighbours, gpu_bytes;
};

static json_t *agent_plan(const char *spec_path)
{
    char program[PATH_MAX], home[PROGRAM_PATH];
    struct buf out[2] = {{0}, {0}};
    struct err err = {.code = ERR_NONE};
    json_t *plan = NULL;
    install_path(program, sizeof(program), "jobctl-agent");
    if (home_dir(home, sizeof(home), &err) < 0)
        return NULL;
    const struct subprocess_spec s = {
        .argv = (const char *const[]){program, "plan", "--json", "--state", home, "--spec", spec_path, NULL},
        .in = SUBPROCESS_NULL, .out = SUBPROCESS_PIPE, .err = SUBPROCESS_PIPE};
    if (subprocess_run(&s, out, PLAN_MS, &err) == 0)
        plan = json_loads(subprocess_text(&out[0]), 0, NULL);
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    return plan;
}

/* Nothing is known with a GPU whose memory is unknown. All nodes of a local run are this machine. */
static struct machine machine_of(const json_t *spec, const char *spec_path)
{
    const json_t *resources = json_object_get(spec, "resources"), *gpus = json_object_get(resources, "gpus");
    const json_t *check = json_object_get(json_object_get(spec, "train"), "memory_check");
    struct machine m = {0};
    if (remote_of_spec(spec) != &remote_local || json_is_false(check) ||
        !json_is_object(json_object_get(spec, "train")))
        return m;
    json_t *plan = agent_plan(spec_path);
    const long long np = json_integer_value(json_object_get(plan, "np"));
    const long long nodes = json_integer_value(json_object_get(plan, "nodes"));
    const json_t *first = json_array_get(json_object_get(plan, "ranks"), 0);
    m.gpu_bytes = json_integer_value(json_object_get(plan, "gpu_memory_bytes"));
    const bool known = m.gpu_bytes > 0 || !json_is_string(json_object_get(first, "gpu"));
    if (known && !(json_is_integer(gpus) && json_integer_value(gpus) > 0 && m.gpu_bytes == 0))
        m.neighbours = m.ranks = np * (nodes > 0 ? nodes : 1);
    json_decref(plan);
    return m;
}

/* What fails for another reason, such as a missing program, is reported when the job starts. */
static void inspect(struct call *call, const json_t *request, const json_t *spec, const char *path,
                    const struct machine *m)
{
    char program[PATH_MAX], text[3][24];
    struct buf out[2] = {{0}, {0}};
    struct err err = {.code = ERR_NONE};
    const long long number[] = {m->ranks, m->neighbours, m->gpu_bytes};
    for (int i = 0; i < 3; i++)
        snprintf(text[i], sizeof(text[i]), "%lld", number[i]);
    install_path(program, sizeof(program), "jobctl-train");
    const struct subprocess_spec s = {
        .argv = (const char *const[]){program, "inspect", "--ranks", text[0], "--neighbours", text[1], "--gpu-bytes",
                                      text[2], "--spec", path, NULL},
        .in = SUBPROCESS_NULL, .out = SUBPROCESS_PIPE, .err = SUBPROCESS_PIPE};
    if (subprocess_run(&s, out, -1, &err) > 0)
        refuse_named(call, request, spec, subprocess_text(&out[1]));
    buf_fini(&out[0]);
    buf_fini(&out[1]);
}

static void check_named(struct call *call, const json_t *request, const json_t *spec)
{
    char path[PROGRAM_PATH];
    struct err err = {.code = ERR_NONE};
    if (!names_files(spec) || remote_of_spec(spec) == &remote_ssh || program_spec_file(path, spec, &err) < 0)
        return;
    inspect(call, request, spec, path, &(struct machine){0});
    unlink(path);
}

int local_check_memory(struct call *call, const json_t *request, const json_t *spec)
{
    char path[PROGRAM_PATH];
    struct err err = {.code = ERR_NONE};
    if (far_host_name() || program_spec_file(path, spec, &err) < 0)
        return 0;
    const struct machine m = machine_of(spec, path);
    if (m.ranks > 0)
        inspect(call, request, spec, path, &m);
    unlink(path);
    return diagnostics_first(&call->found, &call->err);
}

/* ---- hosts ---- */

/* A line of `jobctl-ssh resolve`. */
static void take_answer(struct call *call, const json_t *request, const json_t *answer, json_t *notes)
{
    const char *host = field_text(answer, "host"), *text = field_text(answer, "text");
    if (!text[0])
        return;
    if (field_true(answer, "unknown") && !field_true(answer, "jump"))
        local_check_refuse(call, request, "hosts",
                           "%s; correct the name, or add it to the DNS, /etc/hosts or ~/.ssh/config", text);
    else if (field_true(answer, "jump"))
        json_array_append_new(notes, json_text_f("hosts: %s; its jump host must be able to resolve it", text));
    else
        json_array_append_new(notes, json_text_f("hosts: %s was not checked: %s", host, text));
}

static void check_hosts(struct call *call, const json_t *request, const json_t *spec, json_t *notes)
{
    char program[PATH_MAX];
    const char *argv[HOSTS + 3] = {program, "resolve"};
    struct buf out[2] = {{0}, {0}};
    struct err err = {.code = ERR_NONE};
    const json_t *hosts = json_object_get(spec, "hosts");
    size_t at = 0;
    if (remote_of_spec(spec) != &remote_ssh || !remote_ssh_there() || json_array_size(hosts) == 0 ||
         json_array_size(hosts) > HOSTS)
        return;
    for (size_t i = 0; i < json_array_size(hosts); i++)
        argv[2 + i] = json_string_value(json_array_get(hosts, i));
    install_path(program, sizeof(program), "jobctl-ssh");
    const struct subprocess_spec s = {
        .argv = argv, .in = SUBPROCESS_NULL, .out = SUBPROCESS_PIPE, .err = SUBPROCESS_PIPE, .session = true};
    if (subprocess_run(&s, out, RESOLVE_MS, &err) < 0)
        json_array_append_new(notes, json_text_f("hosts: the names were not checked: %s", err.text));
    while (at < out[0].size) {
        const char *line = out[0].data + at;
        const size_t n = strcspn(line, "\n");
        json_t *answer = json_loadb(line, n, 0, NULL);
        take_answer(call, request, answer, notes);
        json_decref(answer);
        at += n + 1;
    }
    buf_fini(&out[0]);
    buf_fini(&out[1]);
}

/* ---- all ---- */

int local_check(struct call *call, const json_t *request, json_t *spec, json_t *notes)
{
    if (far_host_name())
        return submitter_check(call, request, spec, notes);
    check_program(call, request, spec);
    check_runtime(call, request, spec);
    check_launcher(spec, notes);
    hub_check(call, request, spec, notes);
    check_named(call, request, spec);
    check_hosts(call, request, spec, notes);
    return diagnostics_first(&call->found, &call->err);
}

void local_check_print_notes(const json_t *notes)
{
    size_t i;
    const json_t *note;
    fflush(stdout);
    json_array_foreach (notes, i, note)
        fprintf(stderr, "note: %s\n", json_string_value(note) ? json_string_value(note) : "");
}
