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
_Static_assert(ARRAY_LEN(states) == JOB_END, "a state of this Slurm version is missing here");

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

/* The common reasons; Slurm has dozens more for account limits. */
static const struct {
    uint32_t    reason;
    const char *word, *meaning;
} reasons[] = {
    { WAIT_PRIORITY, "Priority", "jobs with higher priority are ahead" },
    { WAIT_DEPENDENCY, "Dependency", "it depends on an unfinished job" },
    { WAIT_RESOURCES, "Resources", "no suitable node is free" },
    { WAIT_PART_NODE_LIMIT, "PartitionNodeLimit", "it requests more nodes than the partition allows" },
    { WAIT_PART_TIME_LIMIT, "PartitionTimeLimit", "it requests more time than the partition allows" },
    { WAIT_PART_CONFIG, "PartitionConfig", "the partition has no nodes with what it requests" },
    { WAIT_PART_DOWN, "PartitionDown", "the partition is down" },
    { WAIT_PART_INACTIVE, "PartitionInactive", "the partition is inactive" },
    { WAIT_HELD, "JobHeldAdmin", "held by an administrator" },
    { WAIT_HELD_USER, "JobHeldUser", "held by the user: scontrol release" },
    { WAIT_TIME, "BeginTime", "its start time is in the future" },
    { WAIT_LICENSES, "Licenses", "a required license is in use" },
    { WAIT_RESERVATION, "Reservation", "its reservation is not active" },
    { WAIT_NODE_NOT_AVAIL, "ReqNodeNotAvail", "a required node is down or drained" },
    { WAIT_ASSOC_JOB_LIMIT, "AssocJobLimit", "the account has reached its job limit" },
    { WAIT_ASSOC_RESOURCE_LIMIT, "AssocResourceLimit", "the account has reached its resource limit" },
    { WAIT_ASSOC_TIME_LIMIT, "AssocTimeLimit", "the account has reached its time limit" },
    { WAIT_QOS_MAX_JOB_PER_USER, "QOSMaxJobsPerUserLimit", "you have reached the job limit of the "
                                                           "QOS" },
    { WAIT_QOS_JOB_LIMIT, "QOSJobLimit", "the QOS has reached its job limit" },
    { WAIT_QOS_RESOURCE_LIMIT, "QOSResourceLimit", "the QOS has reached its resource limit" },
    { WAIT_QOS_TIME_LIMIT, "QOSTimeLimit", "the QOS has reached its time limit" },
    { WAIT_ARRAY_TASK_LIMIT, "JobArrayTaskLimit", "its array's limit of running tasks is reached" },
    { WAIT_CLEANING, "Cleaning", "Slurm is cleaning up an earlier run" },
    { WAIT_PROLOG, "Prolog", "its nodes are being prepared" },
    { WAIT_ACCOUNT, "InvalidAccount", "the account may not use this partition" },
    { WAIT_QOS, "InvalidQOS", "the QOS is not allowed here" },
    { FAIL_DOWN_NODE, "NodeDown", "one of its nodes failed" },
    { FAIL_BAD_CONSTRAINTS, "BadConstraints", "no node satisfies the request" },
    { FAIL_SYSTEM, "SystemFailure", "Slurm itself failed" },
    { FAIL_LAUNCH, "JobLaunchFailure", "Slurm could not start it on its node" },
    { FAIL_EXIT_CODE, "NonZeroExitCode", NULL },
    { FAIL_TIMEOUT, "TimeLimit", "its time limit was reached" },
    { FAIL_ACCOUNT, "InvalidAccount", "the account does not exist" },
    { FAIL_QOS, "InvalidQOS", "the QOS does not exist" },
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
        snprintf(out, size, "%s%s%s%s", word, meaning ? " (" : "", meaning ? meaning : "", meaning ? ")" : "");
    else
        snprintf(out, size, "%s (Slurm's reason %u)", meaning ? meaning : "a limit of Slurm", reason);
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
