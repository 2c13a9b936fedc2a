/* SPDX-License-Identifier: GPL-2.0-or-later */
/* state_names.c - see state_names.h */
#include "controller/slurm/state_names.h"

#include <slurm/slurm.h>
#include <stdio.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const states[] = {
    [JOB_PENDING] = "PENDING", [JOB_RUNNING] = "RUNNING", [JOB_SUSPENDED] = "SUSPENDED",
    [JOB_COMPLETE] = "COMPLETED", [JOB_CANCELLED] = "CANCELLED", [JOB_FAILED] = "FAILED",
    [JOB_TIMEOUT] = "TIMEOUT", [JOB_NODE_FAIL] = "NODE_FAIL", [JOB_PREEMPTED] = "PREEMPTED",
    [JOB_BOOT_FAIL] = "BOOT_FAIL", [JOB_DEADLINE] = "DEADLINE", [JOB_OOM] = "OUT_OF_MEMORY",
};
_Static_assert(ARRAY_LEN(states) == JOB_END, "this Slurm has a state without a word here");

const char *state_names_state(uint32_t job_state)
{
    uint32_t base = job_state & JOB_STATE_BASE;
    return base < JOB_END ? states[base] : "UNKNOWN";
}

const char *state_names_phase(uint32_t job_state)
{
    uint32_t base = job_state & JOB_STATE_BASE;
    if (job_state & JOB_COMPLETING)
        return "ending";
    if (base == JOB_PENDING)
        return "pending";
    return base == JOB_RUNNING || base == JOB_SUSPENDED ? "running" : "ended";
}

/* What people wait for in practice; limits of accounts have dozens more. */
static const struct {
    uint32_t    reason;
    const char *word, *meaning;
} reasons[] = {
    { WAIT_PRIORITY, "Priority", "jobs of higher priority are before it" },
    { WAIT_DEPENDENCY, "Dependency", "a job that it depends on is not done" },
    { WAIT_RESOURCES, "Resources", "no node is free that has what it needs" },
    { WAIT_PART_NODE_LIMIT, "PartitionNodeLimit", "the partition does not give so many nodes" },
    { WAIT_PART_TIME_LIMIT, "PartitionTimeLimit", "the partition does not give so much time" },
    { WAIT_PART_DOWN, "PartitionDown", "the partition is down" },
    { WAIT_PART_INACTIVE, "PartitionInactive", "the partition starts no jobs now" },
    { WAIT_HELD, "JobHeldAdmin", "an administrator holds it" },
    { WAIT_HELD_USER, "JobHeldUser", "it is held: scontrol release lets it go" },
    { WAIT_TIME, "BeginTime", "it may not begin yet" },
    { WAIT_LICENSES, "Licenses", "a licence that it needs is in use" },
    { WAIT_RESERVATION, "Reservation", "its reservation is not open" },
    { WAIT_NODE_NOT_AVAIL, "ReqNodeNotAvail", "a node that it needs is down or drained" },
    { WAIT_ASSOC_JOB_LIMIT, "AssocJobLimit", "the account runs as many jobs as it may" },
    { WAIT_ASSOC_RESOURCE_LIMIT, "AssocResourceLimit", "the account uses as much as it may" },
    { WAIT_ASSOC_TIME_LIMIT, "AssocTimeLimit", "the account's time is used up" },
    { WAIT_QOS_MAX_JOB_PER_USER, "QOSMaxJobsPerUserLimit", "you run as many jobs as the QOS allows" },
    { WAIT_QOS_JOB_LIMIT, "QOSJobLimit", "the QOS runs as many jobs as it may" },
    { WAIT_QOS_RESOURCE_LIMIT, "QOSResourceLimit", "the QOS uses as much as it may" },
    { WAIT_QOS_TIME_LIMIT, "QOSTimeLimit", "the QOS's time is used up" },
    { WAIT_CLEANING, "Cleaning", "an earlier run of it is being cleaned up" },
    { WAIT_PROLOG, "Prolog", "its nodes are being prepared" },
    { WAIT_ACCOUNT, "InvalidAccount", "the account may not use this partition" },
    { WAIT_QOS, "InvalidQOS", "the QOS may not be used here" },
    { FAIL_DOWN_NODE, "NodeDown", "a node of it failed" },
    { FAIL_BAD_CONSTRAINTS, "BadConstraints", "no node can ever have what it asks for" },
    { FAIL_SYSTEM, "SystemFailure", "Slurm itself failed" },
    { FAIL_LAUNCH, "JobLaunchFailure", "it could not be started on its node" },
    { FAIL_EXIT_CODE, "NonZeroExitCode", NULL },
    { FAIL_TIMEOUT, "TimeLimit", "its time limit is over" },
    { FAIL_ACCOUNT, "InvalidAccount", "there is no such account" },
    { FAIL_QOS, "InvalidQOS", "there is no such QOS" },
};

void state_names_reason(char *out, size_t size, uint32_t reason, const char *detail)
{
    const char *word = NULL, *meaning = NULL;
    out[0] = 0;
    if (reason == WAIT_NO_REASON)
        return;
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (reasons[i].reason == reason) {
            word = reasons[i].word;
            meaning = reasons[i].meaning;
        }
    if (detail && detail[0])
        meaning = detail;
    if (word)
        snprintf(out, size, "%s%s%s%s", word, meaning ? " (" : "", meaning ? meaning : "",
                 meaning ? ")" : "");
    else
        snprintf(out, size, "%s (Slurm's reason %u)", meaning ? meaning : "a limit of Slurm",
                 reason);
}

void state_names_node(char *out, size_t size, uint32_t node_state)
{
    static const char *const bases[] = {
        [NODE_STATE_UNKNOWN] = "unknown", [NODE_STATE_DOWN] = "down", [NODE_STATE_IDLE] = "idle",
        [NODE_STATE_ALLOCATED] = "allocated", [NODE_STATE_ERROR] = "error",
        [NODE_STATE_MIXED] = "mixed", [NODE_STATE_FUTURE] = "future",
    };
    uint32_t base = node_state & NODE_STATE_BASE;
    const char *word = base < ARRAY_LEN(bases) ? bases[base] : "unknown";
    if (node_state & NODE_STATE_DRAIN)
        word = base == NODE_STATE_ALLOCATED || base == NODE_STATE_MIXED ? "draining" : "drained";
    snprintf(out, size, "%s%s", word, node_state & NODE_STATE_NO_RESPOND ? "*" : "");
}
