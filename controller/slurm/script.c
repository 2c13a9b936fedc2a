/* SPDX-License-Identifier: GPL-2.0-or-later */
/* script.c - see script.h; one table row per sbatch option */
#include "controller/slurm/script.h"

#include <errno.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The state of options that use more than one field. */
struct reading {
    job_desc_msg_t *job;
    char           *tres;       /* holds "gres:gpu:N" */
};

enum { TRES = 96 };

static int whole(const char *text, const char *option, unsigned long max, unsigned long *out, struct err *err)
{
    char *end;
    errno = 0;
    *out = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || *out > max)
        return err_set(err, ERR_USAGE, "--%s=%.40s: expected a whole number, at most %lu", option, text, max);
    return 0;
}

/* 4, or 2-4 */
static int take_nodes(struct reading *r, const char *text, struct err *err)
{
    char least[16];
    unsigned long from, to;
    const size_t n = strcspn(text, "-");
    snprintf(least, sizeof(least), "%.*s", (int)(n < sizeof(least) ? n : sizeof(least) - 1), text);
    if (whole(least, "nodes", 100000, &from, err) < 0 ||
        whole(text[n] ? text + n + 1 : least, "nodes", 100000, &to, err) < 0)
        return -1;
    r->job->min_nodes = (uint32_t)from;
    r->job->max_nodes = (uint32_t)to;
    return 0;
}

static int take_no_kill(struct reading *r, const char *text, struct err *err)
{
    (void)err;
    (void)text;
    r->job->kill_on_node_fail = 0;
    return 0;
}

static int take_tasks(struct reading *r, const char *text, struct err *err)
{
    unsigned long n;
    if (whole(text, "ntasks-per-node", 1024, &n, err) < 0)
        return -1;
    r->job->ntasks_per_node = (uint16_t)n;
    return 0;
}

static int take_cpus(struct reading *r, const char *text, struct err *err)
{
    unsigned long n;
    if (whole(text, "cpus-per-task", 65000, &n, err) < 0)
        return -1;
    r->job->cpus_per_task = (uint16_t)n;
    return 0;
}

static int take_gpus(struct reading *r, const char *text, struct err *err)
{
    if (strlen(text) > 60)
        return err_set(err, ERR_USAGE, "--gpus-per-node=%.40s... is too long", text);
    snprintf(r->tres, TRES, "gres:gpu:%s", text);
    r->job->tres_per_node = r->tres;
    return 0;
}

static int take_gres(struct reading *r, const char *text, struct err *err)
{
    if (strlen(text) > 60)
        return err_set(err, ERR_USAGE, "--gres=%.40s... is too long", text);
    snprintf(r->tres, TRES, "gres:%s", text);
    r->job->tres_per_node = r->tres;
    return 0;
}

static int take_time(struct reading *r, const char *text, struct err *err)
{
    unsigned long minutes;
    if (whole(text, "time", 60UL * 24 * 3660, &minutes, err) < 0)
        return -1;
    r->job->time_limit = (uint32_t)minutes;
    return 0;
}

/* In MiB, or with a unit. */
static int take_memory(struct reading *r, const char *text, struct err *err)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : units + 1;
    if (text[0] < '0' || text[0] > '9' || errno || !unit || (*end && end[1]) || n > 1ULL << 30)
        return err_set(err, ERR_USAGE, "--mem=%.40s: expected a number with K, M, G or T", text);
    r->job->pn_min_memory = unit == units ? (n + 1023) / 1024 : n << (10 * (unit - units - 1));
    return 0;
}

/* B:USR2@120 */
static int take_signal(struct reading *r, const char *text, struct err *err)
{
    unsigned long seconds;
    if (strncmp(text, "B:USR2@", 7) != 0)
        return err_set(err, ERR_USAGE, "--signal=%.40s: expected B:USR2@SECONDS", text);
    if (whole(text + 7, "signal", 65535, &seconds, err) < 0)
        return -1;
    r->job->warn_flags = KILL_JOB_BATCH;
    r->job->warn_signal = SIGUSR2;
    r->job->warn_time = (uint16_t)seconds;
    return 0;
}

static int take_no_requeue(struct reading *r, const char *text, struct err *err)
{
    (void)err;
    (void)text;
    r->job->requeue = 0;
    return 0;
}

static int take_exclusive(struct reading *r, const char *text, struct err *err)
{
    (void)text;
    (void)err;
    r->job->shared = JOB_SHARED_NONE;
    return 0;
}

static int take_open_mode(struct reading *r, const char *text, struct err *err)
{
    if (strcmp(text, "append") != 0)
        return err_set(err, ERR_USAGE, "--open-mode=%.40s: expected append", text);
    r->job->open_mode = OPEN_MODE_APPEND;
    return 0;
}

#define TEXT(name, field) { name, true, offsetof(job_desc_msg_t, field), NULL }
#define CALL(name, take)  { name, true, 0, take }

static const struct option {
    const char *name;
    bool        has_value;
    size_t      field;      /* offset of a char * of the request, if there is no function */
    int       (*take)(struct reading *r, const char *text, struct err *err);
} options[] = {
    TEXT("account", account),
    TEXT("array", array_inx),
    TEXT("chdir", work_dir),
    TEXT("comment", comment),
    TEXT("constraint", features),
    TEXT("error", std_err),
    TEXT("exclude", exc_nodes),
    TEXT("job-name", name),
    TEXT("licenses", licenses),
    TEXT("nodelist", req_nodes),
    TEXT("output", std_out),
    TEXT("partition", partition),
    TEXT("qos", qos),
    TEXT("reservation", reservation),
    CALL("cpus-per-task", take_cpus),
    CALL("gpus-per-node", take_gpus),
    CALL("gres", take_gres),
    CALL("mem", take_memory),
    CALL("nodes", take_nodes),
    { "no-kill", false, 0, take_no_kill },
    CALL("ntasks-per-node", take_tasks),
    CALL("open-mode", take_open_mode),
    CALL("signal", take_signal),
    CALL("time", take_time),
    { "exclusive", false, 0, take_exclusive },
    { "no-requeue", false, 0, take_no_requeue },
};

static int take_line(struct reading *r, char *line, struct err *err)
{
    char *value = strchr(line, '=');
    if (value)
        *value++ = 0;
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const struct option *o = &options[i];
        if (strcmp(o->name, line) != 0)
            continue;
        if (o->has_value != (value && value[0]))
            return err_set(err, ERR_USAGE, "#SBATCH --%s: expected %s", line,
                           o->has_value ? "a value after '='" : "no value");
        if (o->take)
            return o->take(r, value, err);
        char **field = (char **)(void *)((char *)r->job + o->field);
        *field = value;
        return 0;
    }
    return err_set(err, ERR_USAGE, "#SBATCH --%.60s: jobctl does not support this option", line);
}

int script_read(struct job_descriptor *job, char **copy, const char *script, struct err *err)
{
    static const char mark[] = "#SBATCH --";
    slurm_init_job_desc_msg(job);
    *copy = malloc(strlen(script) + 1 + TRES);
    if (!*copy)
        return err_set(err, ERR_MEMORY, "out of memory for a batch script");
    char *text = *copy + TRES, *next;
    memcpy(text, script, strlen(script) + 1);
    struct reading r = { job, *copy };
    for (char *line = text; line && *line == '#'; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        if (strncmp(line, mark, sizeof(mark) - 1) == 0 &&
            take_line(&r, line + sizeof(mark) - 1, err) < 0)
            return -1;
    }
    if (job->ntasks_per_node != (uint16_t)NO_VAL16 && job->min_nodes != NO_VAL)
        job->num_tasks = job->ntasks_per_node * job->min_nodes;
    if (job->cpus_per_task != (uint16_t)NO_VAL16 && job->num_tasks != NO_VAL)
        job->min_cpus = job->cpus_per_task * job->num_tasks;
    return 0;
}
