/* SPDX-License-Identifier: GPL-2.0-or-later */
/* main.c - jobctl-slurm: requests to Slurm and its answers as lines of JSON
 *
 * libslurm blocks for ten seconds when slurmctld is down, exits the process when
 * it finds no slurm.conf, and works with one release of Slurm only.  In a process
 * of its own this does not affect the daemon, which starts another one.
 *
 * Each request is a line on standard input, its answer a line on standard output,
 * in order; the process exits at the end of its input.
 *
 *   {"id", "op":"jobs"}                     jobs of ours: {"jobs":[{job, comment, state, phase,
 *                                           reason, nodes, exit_code, signal, start_s, end_s,
 *                                           restarts: number of requeues by Slurm}]}; of an array job is
 *                                           its number, with task: the index of the one that this is of,
 *                                           or tasks: "3,5-11", those that it has not begun
 *   {"id", "op":"submit", "script",         {"job", "found"}: found: it already existed; the job's
 *    "without": [NAME...]}                  environment is ours without these variables
 *   {"id", "op":"cancel", "job", "comment", {}: only a job with this comment is cancelled; task: one
 *    "task"}                                index of an array
 *   {"id", "op":"nodes"}                    {"nodes":[{node, state, cpus, gres, reason}]}
 *   {"id", "op":"config"}                   {}: there is a configuration; asks no other machine
 *
 * An answer is {"id", "ok":true, ...} or {"id", "ok":false, "away", "error"}; away: Slurm did not
 * answer, so the outcome is unknown; else with number: of Slurm's error, and partitions: their names, of a submit whose
 * partition Slurm does not take.  Without a configuration the only answer is {"id":null, "ok":false,
 * "unconfigured":true, "error"}, and the process ends.
 *
 * A submit is identified by its comment, which must begin with "jobctl:", or "jobctl-array:" for an array: a lost
 * answer or a repeated request never creates two jobs.
 */
#include <errno.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "controller/slurm/script.h"
#include "controller/slurm/state_names.h"
#include "engine/base/err.h"
#include "engine/base/json_make.h"

static const char *const ours[] = { "jobctl:", "jobctl-array:" };

extern char **environ;

/* ---- answers ---- */

static void say(const json_t *id, json_t *answer)
{
    char *text;
    if (!answer || json_object_set(answer, "id", (json_t *)(uintptr_t)id) < 0 ||
        !(text = json_dumps(answer, JSON_COMPACT))) {
        fputs("jobctl-slurm: out of memory\n", stderr);
        exit(70);
    }
    puts(text);
    fflush(stdout);
    free(text);
    json_decref(answer);
}

static json_t *refusal(const char *error, bool away)
{
    return json_make("{s:b, s:b, s:s}", "ok", 0, "away", (int)away, "error", error);
}

/* True if slurmctld was not reached or did not answer. */
static bool is_away(int error)
{
    return error < ESLURM_INVALID_PARTITION_NAME ||
           (error >= SLURM_PROTOCOL_SOCKET_IMPL_ZERO_RECV_LENGTH && error < ESLURM_FED_CLUSTER_MAX_CNT) ||
           error == ESLURM_IN_STANDBY_MODE || error == ESLURM_IN_STANDBY_USE_BACKUP;
}

static json_t *slurm_failed(void)
{
    int error = slurm_get_errno();
    const char *text = slurm_strerror(error);
    json_t *answer = refusal(text && text[0] ? text : "unknown error of libslurm", is_away(error));
    json_object_set_new(answer, "number", json_integer(error));
    return answer;
}

/* The partition names; empty if slurmctld does not answer. */
static json_t *list_partitions(void)
{
    partition_info_msg_t *m = NULL;
    json_t *names = json_array();
    if (slurm_load_partitions(0, &m, SHOW_ALL) != SLURM_SUCCESS)
        return names;
    for (uint32_t i = 0; i < m->record_count; i++)
        json_array_append_new(names, json_text(m->partition_array[i].name));
    slurm_free_partition_info_msg(m);
    return names;
}

static json_t *not_submitted(void)
{
    const int error = slurm_get_errno();
    json_t *answer = slurm_failed();
    if (error == ESLURM_INVALID_PARTITION_NAME || error == ESLURM_DEFAULT_PARTITION_NOT_SET ||
        error == ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP)
        json_object_set_new(answer, "partitions", list_partitions());
    return answer;
}

/* ---- jobs ---- */

static bool is_our_comment(const char *text)
{
    for (size_t i = 0; text && i < sizeof(ours) / sizeof(ours[0]); i++)
        if (strncmp(text, ours[i], strlen(ours[i])) == 0)
            return true;
    return false;
}

static bool is_ours(const slurm_job_info_t *j)
{
    return j->user_id == getuid() && is_our_comment(j->comment);
}

/* Of all tasks of an array, one number. */
static uint32_t number_of(const slurm_job_info_t *j)
{
    return j->array_job_id ? j->array_job_id : j->job_id;
}

/* slurmctld may reuse the id of a job that it lost: the comment identifies the job. */
static const slurm_job_info_t *find(const job_info_msg_t *m, const char *comment)
{
    const slurm_job_info_t *found = NULL;
    for (uint32_t i = 0; i < m->record_count; i++) {
        const slurm_job_info_t *j = &m->job_array[i];
        if (is_ours(j) && strcmp(j->comment, comment) == 0 && (!found || number_of(j) > number_of(found)))
            found = j;
    }
    return found;
}

/* Of an array, Slurm has one record for each task that has begun, and one for all others. */
static void add_tasks(json_t *object, const slurm_job_info_t *j)
{
    if (j->array_job_id && j->array_task_id != NO_VAL)
        json_object_set_new(object, "task", json_integer((json_int_t)j->array_task_id));
    else if (j->array_job_id && j->array_task_str)
        json_object_set_new(object, "tasks", json_text_n(j->array_task_str, strcspn(j->array_task_str, "%")));
}

static json_t *job_object(const slurm_job_info_t *j)
{
    char reason[200];
    int status = (int)j->exit_code;
    state_names_reason(reason, sizeof(reason), j->state_reason, j->state_desc);
    json_t *out = json_make("{s:I, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:i}", "job",
                     (json_int_t)number_of(j), "comment", j->comment, "state",
                     state_names_state(j->job_state), "phase", state_names_phase(j->job_state), "reason",
                     reason, "nodes", j->nodes ? j->nodes : "", "exit_code",
                     WIFEXITED(status) ? WEXITSTATUS(status) : 0, "signal",
                     WIFSIGNALED(status) ? WTERMSIG(status) : 0, "start_s",
                     (json_int_t)j->start_time, "end_s", (json_int_t)j->end_time, "restarts",
                     (int)j->restart_cnt);
    add_tasks(out, j);
    return out;
}

static json_t *list_jobs(const json_t *request)
{
    job_info_msg_t *m = NULL;
    json_t *jobs = json_array();
    (void)request;
    if (slurm_load_job_user(&m, getuid(), 0) != SLURM_SUCCESS) {
        json_decref(jobs);
        return slurm_failed();
    }
    for (uint32_t i = 0; i < m->record_count; i++)
        if (is_ours(&m->job_array[i]))
            json_array_append_new(jobs, job_object(&m->job_array[i]));
    slurm_free_job_info_msg(m);
    return json_make("{s:b, s:o}", "ok", 1, "jobs", jobs);
}

static json_t *submitted(uint32_t job, bool found)
{
    return json_make("{s:b, s:I, s:b}", "ok", 1, "job", (json_int_t)job, "found", (int)found);
}

/* Is the variable in the list of names? */
static bool is_named(const char *variable, const json_t *names)
{
    size_t i;
    const json_t *one;
    json_array_foreach (names, i, one) {
        const char *name = json_string_value(one);
        const size_t n = name ? strlen(name) : 0;
        if (n > 0 && strncmp(variable, name, n) == 0 && variable[n] == '=')
            return true;
    }
    return false;
}

/* Slurm stores a job's environment in a file, so secrets are removed from it. For free(). */
static char **open_environment(uint32_t *size, const json_t *secrets)
{
    size_t n = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + 1, sizeof(*env));
    *size = 0;
    for (size_t i = 0; env && i < n; i++)
        if (!is_named(environ[i], secrets))
            env[(*size)++] = environ[i];
    return env;
}

static json_t *submit_new(job_desc_msg_t *job, const char *script, const json_t *secrets)
{
    submit_response_msg_t *made = NULL;
    char *text = strdup(script), **env = open_environment(&job->env_size, secrets);
    if (!text || !env) {
        free(text);
        free(env);
        return refusal("out of memory", false);
    }
    job->script = text;
    job->environment = env;
    job->user_id = getuid();
    job->group_id = getgid();
    int rc = slurm_submit_batch_job(job, &made);
    free(text);
    free(env);
    if (rc != SLURM_SUCCESS)
        return not_submitted();
    uint32_t id = made->job_id;
    slurm_free_submit_response_response_msg(made);
    return submitted(id, false);
}

static json_t *submit(const json_t *request)
{
    const char *script = json_string_value(json_object_get(request, "script"));
    struct err err = { 0 };
    job_desc_msg_t job;
    job_info_msg_t *m = NULL;
    json_t *answer = NULL;
    char *copy = NULL;
    if (!script)
        return refusal("submit needs a script", false);
    if (script_read(&job, &copy, script, &err) < 0) {
        answer = refusal(err.text, false);
        goto out;
    }
    if (!is_our_comment(job.comment) || !job.work_dir) {
        answer = refusal("a script needs --chdir, and a --comment that begins with jobctl:", false);
        goto out;
    }
    if (slurm_load_job_user(&m, getuid(), 0) != SLURM_SUCCESS) {
        answer = slurm_failed();
        goto out;
    }
    const slurm_job_info_t *there = find(m, job.comment);
    answer = there ? submitted(number_of(there), true)
                   : submit_new(&job, script, json_object_get(request, "without"));
out:
    if (m)
        slurm_free_job_info_msg(m);
    free(copy);
    return answer;
}

/* A job, or one task of an array: the number of an array alone is all of it. */
static int kill_job(uint32_t job, const json_t *task)
{
    char id[40];
    if (json_is_integer(task))
        snprintf(id, sizeof(id), "%u_%d", job, (int)json_integer_value(task));
    else
        snprintf(id, sizeof(id), "%u", job);
    return slurm_kill_job2(id, SIGKILL, 0, NULL) == SLURM_SUCCESS || slurm_get_errno() == ESLURM_ALREADY_DONE ? 0 : -1;
}

static json_t *cancel(const json_t *request)
{
    const char *comment = json_string_value(json_object_get(request, "comment"));
    uint32_t id = (uint32_t)json_integer_value(json_object_get(request, "job"));
    job_info_msg_t *m = NULL;
    if (!comment)
        return refusal("cancel needs a comment", false);
    if (slurm_load_job_user(&m, getuid(), 0) != SLURM_SUCCESS)
        return slurm_failed();
    const slurm_job_info_t *there = find(m, comment);
    bool same = there && number_of(there) == id;
    slurm_free_job_info_msg(m);
    if (!same)
        return refusal("Slurm has no such job with this comment", false);
    if (kill_job(id, json_object_get(request, "task")) < 0)
        return slurm_failed();
    return json_make("{s:b}", "ok", 1);
}

/* ---- nodes ---- */

static json_t *list_nodes(const json_t *request)
{
    node_info_msg_t *m = NULL;
    json_t *nodes = json_array();
    (void)request;
    if (slurm_load_node(0, &m, SHOW_ALL) != SLURM_SUCCESS) {
        json_decref(nodes);
        return slurm_failed();
    }
    for (uint32_t i = 0; i < m->record_count; i++) {
        const node_info_t *n = &m->node_array[i];
        char state[40];
        state_names_node(state, sizeof(state), n->node_state);
        json_array_append_new(
            nodes, json_make("{s:s, s:s, s:i, s:s, s:s}", "node", n->name ? n->name : "", "state",
                             state, "cpus", (int)n->cpus, "gres", n->gres ? n->gres : "", "reason",
                             n->reason ? n->reason : ""));
    }
    slurm_free_node_info_msg(m);
    return json_make("{s:b, s:o, s:o}", "ok", 1, "nodes", nodes, "partitions", list_partitions());
}

/* ---- configuration ---- */

static bool configured;

/* libslurm ends the process where it finds no configuration. */
static void say_unconfigured(void)
{
    const char *file = getenv("SLURM_CONF");
    char text[400];
    if (configured)
        return;
    if (file)
        snprintf(text, sizeof(text), "SLURM_CONF is %.200s, which is not a Slurm configuration", file);
    else
        snprintf(text, sizeof(text), "there is no slurm.conf, and the DNS lists no server that provides one");
    json_t *answer = refusal(text, false);
    json_object_set_new(answer, "unconfigured", json_true());
    say(json_null(), answer);
}

/* libslurm would look for a missing file for a minute. */
static void configure(void)
{
    const char *file = getenv("SLURM_CONF");
    atexit(say_unconfigured);
    if (file && access(file, R_OK) < 0)
        exit(2);
    setenv("SLURM_BITSTR_LEN", "0", 1);     /* lists of tasks are told whole */
    slurm_init(NULL);
    configured = true;
}

static json_t *tell_configured(const json_t *request)
{
    (void)request;
    return json_make("{s:b}", "ok", 1);
}

/* ---- the loop ---- */

static const struct {
    const char *op;
    json_t   *(*answer)(const json_t *request);
} ops[] = {
    { "jobs", list_jobs }, { "submit", submit }, { "cancel", cancel }, { "nodes", list_nodes },
    { "config", tell_configured },
};

static void serve(const json_t *request)
{
    const char *op = json_string_value(json_object_get(request, "op"));
    const json_t *id = json_object_get(request, "id");
    for (size_t i = 0; op && i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (strcmp(ops[i].op, op) == 0) {
            say(id ? id : json_null(), ops[i].answer(request));
            return;
        }
    }
    say(id ? id : json_null(), refusal("unknown op; use jobs, submit, cancel, nodes or config", false));
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t room = 0;
    if (argc > 1) {
        printf("jobctl-slurm " JOBCTL_VERSION ", for Slurm %d.%02d\n",
               SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER), SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER));
        return strcmp(argv[1], "version") == 0 ? 0 : 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    configure();
    while (getline(&line, &room, stdin) > 0) {
        json_error_t why;
        json_t *request = json_loads(line, JSON_REJECT_DUPLICATES, &why);
        if (request)
            serve(request);
        else
            say(json_null(), refusal("the request is not JSON", false));
        json_decref(request);
    }
    free(line);
    return 0;
}
