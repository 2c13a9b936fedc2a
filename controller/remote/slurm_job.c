/* SPDX-License-Identifier: Apache-2.0 */
/* slurm_job.c - see slurm_job.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/remote/slurm_job.h"

#include <stdio.h>
#include <string.h>

#include "engine/contract/exit_code.h"
#include "engine/base/field.h"

bool slurm_job_is_task(const json_t *job)
{
    return json_object_get(job, "task") || json_object_get(job, "tasks");
}

const char *slurm_job_number(char out[SLURM_JOB_NUMBER], const json_t *job, int task)
{
    const long long number = json_integer_value(json_object_get(job, "job"));
    if (slurm_job_is_task(job))
        snprintf(out, SLURM_JOB_NUMBER, "%lld_%d", number, task);
    else
        snprintf(out, SLURM_JOB_NUMBER, "%lld", number);
    return out;
}

/* Slurm's end states as text. */
static const char *state_text(const char *state)
{
    static const struct { const char *state, *text; } ends[] = {
        { "CANCELLED", "it was cancelled outside jobctl" },
        { "TIMEOUT", "its time limit was reached" },
        { "NODE_FAIL", "one of its nodes failed" },
        { "PREEMPTED", "it was preempted by another job" },
        { "OUT_OF_MEMORY", "it used more memory than requested" },
        { "DEADLINE", "its deadline passed" },
        { "BOOT_FAIL", "its node did not boot" },
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (strcmp(ends[i].state, state) == 0)
            return ends[i].text;
    return NULL;
}

/* With the code of a full disk its agent ended before it could tell anything, because it could not make its files. */
bool slurm_job_end(char *out, size_t size, const json_t *job, int task, const char *run_dir)
{
    char number[SLURM_JOB_NUMBER];
    const char *state = field_text(job, "state"), *text = state_text(state);
    const long long code = json_integer_value(json_object_get(job, "exit_code"));
    slurm_job_number(number, job, task);
    if (code == EXIT_DISK_FULL)
        snprintf(out, size,
                 "no room on %.60s: the agent cannot make its files in %.200s, whose disk is full (Slurm job %s)",
                 field_text(job, "nodes"), run_dir, number);
    else if (text)
        snprintf(out, size, "Slurm ended job %s: %s (%s)", number, text, state);
    else
        snprintf(out, size, "Slurm job %s ended without a message from its agent (%s, exit code %lld); see "
                 "%.200s/slurm.log", number, state, code, run_dir);
    return code == EXIT_DISK_FULL;
}

bool slurm_job_requeued(const json_t *job)
{
    const char *phase = field_text(job, "phase");
    return json_integer_value(json_object_get(job, "restarts")) > 0 &&
           (strcmp(phase, "pending") == 0 || strcmp(phase, "running") == 0);
}
