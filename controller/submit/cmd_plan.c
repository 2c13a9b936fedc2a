/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_plan.c - jobctl plan: print the plan of a spec, without submitting, or the plan of a job
 *
 * The daemon knows whether a machine can take the job; jobctl-agent decides ranks, devices and
 * environment; jobctl-train computes memory and batches. This command only queries them. For a job it prints the plan
 * of the newest attempt.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/core/hang_rules.h"
#include "agent/plan/plan.h"
#include "controller/base/client.h"
#include "controller/base/home.h"
#include "controller/base/program.h"
#include "controller/checks/plan_hosts.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/job/job_view.h"
#include "controller/remote/remote.h"
#include "controller/submit/local_check.h"
#include "controller/submit/spec_file.h"
#include "engine/base/buf.h"
#include "engine/base/field.h"
#include "engine/base/json_make.h"

static const struct option_row options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set train.steps=100"},
    {"gpu-memory", 0, OPTION_TEXT, "GIB,...", "plan memory for GPUs of these sizes in GiB: 80,15:fp32"},
    OPTION_JSON,
    {.name = NULL},
};

enum { DOES_NOT_FIT = 1 }; /* exit code of jobctl-train plan --must-fit, and of this command */

/* The answer of one of our programs about the spec: JSON with --json, else text. Returns 0, or DOES_NOT_FIT. */
static int ask(struct call *call, json_t **answer, const char *program, const char *const *words, const char *spec_path)
{
    const char *argv[10];
    int n = 0;
    struct buf out;
    json_error_t why;
    buf_init(&out);
    for (; *words; words++)
        argv[n++] = *words;
    argv[n++] = spec_path;
    argv[n] = NULL;
    const int code = program_run(program, argv, &out, &call->err);
    const bool tight = code == DOES_NOT_FIT && strcmp(program, "jobctl-train") == 0;
    int rc = code < 0 ? -1 : 0;
    memset(&why, 0, sizeof(why));
    if (rc == 0 && !call->json)
        *answer = json_text_n(out.data ? out.data : "", out.size);
    else
        *answer = rc == 0 ? json_loadb(out.data ? out.data : "", out.size, 0, &why) : NULL;
    buf_fini(&out);
    if (code > 0 && !tight) {
        json_decref(*answer);
        *answer = NULL;
        return err_set(&call->err, code < 70 ? ERR_USAGE : ERR_SYSTEM, "%s rejected this spec; see its error above",
                       program);
    }
    if (rc == 0 && !*answer)
        return err_set(&call->err, ERR_SYSTEM, "%s did not answer with JSON: %s", program, why.text);
    return rc == 0 && tight ? DOES_NOT_FIT : rc;
}

static int ask_all(struct call *call, json_t *plan)
{
    const char *const train_words[] = {"plan", "--must-fit", call->json ? "--json" : "--spec",
                                       call->json ? "--spec" : NULL, NULL};
    /* holds probe results of the GPUs (agent/plan/probe_cache.h) */
    char home[PROGRAM_PATH];
    const char *const agent_words[] = {"plan", "--state", home, call->json ? "--json" : "--spec",
                                       call->json ? "--spec" : NULL, NULL};
    const char *gpus = options_text(&call->options, "gpu-memory");
    const char *const card_words[] = {"plan", "--must-fit", "--gpu-memory", gpus, call->json ? "--json" : "--spec",
                                      call->json ? "--spec" : NULL, NULL};
    const json_t *spec = json_object_get(plan, "spec");
    json_t *answer;
    char path[PROGRAM_PATH];
    if (home_dir(home, sizeof(home), &call->err) < 0 ||
        program_spec_file(path, spec, &call->err) < 0)
        return -1;
    int rc = 0;
    if (remote_of_spec(spec) == &remote_local &&
        (rc = ask(call, &answer, "jobctl-agent", agent_words, path)) == 0)
        json_object_set_new(plan, "launch", answer);
    if (rc == 0 && json_is_object(json_object_get(spec, "train")) &&
        (rc = ask(call, &answer, "jobctl-train", gpus ? card_words : train_words, path)) >= 0)
        json_object_set_new(plan, "train", answer);
    unlink(path);
    return rc;
}

/* What is watched in a job with this spec, and how soon: an array of sentences. */
static json_t *hangs_of(const json_t *spec)
{
    struct hang_rules rules;
    hang_rules_read(&rules, spec, json_is_object(json_object_get(spec, "train")));
    return hang_rules_say(&rules);
}

static void print_hangs(FILE *out, const json_t *spec)
{
    size_t i;
    const json_t *row;
    json_t *rows = hangs_of(spec);
    fprintf(out, "all ranks restart after:\n");
    json_array_foreach (rows, i, row)
        fprintf(out, "  %s\n", json_string_value(row));
    json_decref(rows);
}

static void print(struct call *call, const json_t *plan)
{
    const char *gpus = options_text(&call->options, "gpu-memory");
    const struct terminal *t = &call->out;
    const char *launch = json_string_value(json_object_get(plan, "launch"));
    const char *train = json_string_value(json_object_get(plan, "train"));
    size_t i;
    json_t *note;
    json_array_foreach (json_object_get(plan, "notes"), i, note) {
        const char *said = json_string_value(note);
        if (said && !(launch && strstr(launch, said)))  /* the launch plan contains it */
            fprintf(t->file, "note: %s\n", said);
    }
    if (train && !launch && !gpus && json_integer_value(json_object_get(json_object_get(json_object_get(
                                         plan, "spec"), "resources"), "gpus")) > 0)
        fprintf(t->file, "note: memory and batch.micro are for this machine; for GPUs of 80 GiB "
                         "add "
                "--gpu-memory 80\n");
    fprintf(t->file, "%s%s", launch ? launch : "", train ? train : "");
    print_hangs(t->file, json_object_get(plan, "spec"));
}

/* The plan of a job, and how NCCL carried it out. */
static int show(struct call *call, const char *job)
{
    char nccl[800];
    json_t *answer;
    if (options_has(&call->options, "set") || options_has(&call->options, "gpu-memory"))
        return err_set(&call->err, ERR_USAGE, "--set and --gpu-memory need a spec file; %.80s is "
                       "not a file", job);
    if (client_ask_job(&answer, job, "?plan=1", &call->err) < 0)
        return -1;
    const json_t *plan = json_object_get(answer, "plan"), *attempts = json_object_get(answer, "attempts");
    const json_t *newest = NULL;
    for (size_t i = json_array_size(attempts); !newest && i-- > 0;)
        newest = json_object_get(json_array_get(attempts, i), "plan");
    job_view_nccl(nccl, sizeof(nccl), newest);
    int rc = plan ? 0 : err_set(&call->err, ERR_CONFLICT, "job %.80s has no plan yet: none of its attempts has "
                                "started", job);
    if (rc == 0 && call->json) {
        output_json(call, json_make("{s:O, s:O?, s:o}", "plan", plan, "nccl", json_object_get(newest, "nccl"),
                                    "hangs", hangs_of(json_object_get(answer, "spec"))));
    } else if (rc == 0) {
        plan_print(call->out.file, plan);
        if (nccl[0])
            fprintf(call->out.file, "NCCL: %s\n", nccl);
        print_hangs(call->out.file, json_object_get(answer, "spec"));
    }
    json_decref(answer);
    return rc;
}

/* For launch: ssh, from the present state of its hosts. */
static int show_hosts(struct call *call, const json_t *spec, json_t *notes)
{
    if (options_has(&call->options, "gpu-memory"))
        return err_set(&call->err, ERR_USAGE, "--gpu-memory plans for hypothetical GPUs, but this job names hosts; add "
                       "--set launch=local --set 'hosts=[]'");
    json_t *answer = plan_hosts(spec, call->json, &call->err), *note;
    size_t i;
    if (!answer)
        return -1;
    json_array_extend(json_object_get(answer, "notes"), notes);
    if (call->json) {
        json_object_set_new(answer, "hangs", hangs_of(spec));
        output_json(call, answer);
        return 0;
    }
    json_array_foreach (json_object_get(answer, "notes"), i, note)
        fprintf(call->out.file, "note: %s\n", json_string_value(note));
    plan_print(call->out.file, json_object_get(answer, "plan"));
    fprintf(call->out.file, "%s", field_text(answer, "train"));
    print_hangs(call->out.file, spec);
    json_decref(answer);
    return 0;
}

/* For this machine and for Slurm, as the daemon says. */
static int show_here(struct call *call, json_t *request, json_t *notes)
{
    json_t *plan = NULL;
    struct client *c = NULL;
    int rc = -1;
    json_object_set_new(request, "dry_run", json_true());
    if (client_open(&c, true, &call->err) == 0 && spec_file_post(call, c, &plan, request) == 0)
        rc = ask_all(call, plan);
    json_array_extend(json_object_get(plan, "notes"), notes);
    if (rc >= 0 && call->json) {
        json_object_set_new(plan, "hangs", hangs_of(json_object_get(plan, "spec")));
        output_json(call, json_incref(plan));
    } else if (rc >= 0) {
        print(call, plan);
    }
    client_close(c);
    json_decref(plan);
    return rc;
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    if (!spec_file_is(o->args[0]))
        return show(call, o->args[0]);
    json_t *request = NULL, *spec = NULL, *notes = json_array();
    int rc = spec_file_request(call, o->args[0], o->list, o->nlist, &request, &spec);
    json_object_set_new(request, "plan", json_true()); /* for the note about downloads */
    if (rc == 0)
        rc = local_check(call, request, spec, notes);
    json_object_del(request, "plan");
    if (rc == 0)
        rc = remote_of_spec(spec) == &remote_ssh ? show_hosts(call, spec, notes) : show_here(call, request, notes);
    json_decref(notes);
    json_decref(spec);
    json_decref(request);
    return rc;
}

const struct command cmd_plan = {
    .name = "plan", .group = GROUP_START, .where = COMMAND_THERE, .args = ARGS_FILE_OR_JOB,
    .summary = "print how a spec would run on this machine, and why; or how a job runs",
    .help = "Checks FILE, then prints ranks, devices, environment, memory and batches, each decision with its reason, "
            "and the limits after which ranks count as hung. Nothing is submitted. If a train job does not fit into "
            "memory, the plan lists changes that would make it fit, and the exit code is 1. For a JOB, prints the plan "
            "of its newest attempt and whether NCCL connects as predicted. With launch: ssh the plan uses the current "
            "state of the job's hosts.",
    .options = options, .run = run,
};
