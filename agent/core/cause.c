/* SPDX-License-Identifier: Apache-2.0 */
/* cause.c - the rules, strongest first: kernel, rank's own word, signal, code, output */
#include "agent/core/cause.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/rules.h"
#include "engine/contract/exit_code.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* One row a cause: its name, whether the same run again may end differently, and what it means. */
static const struct {
    const char *name;
    bool retry_helps;
    const char *meaning;
} causes[CAUSES] = {
    [CAUSE_NONE] = {"none", false,
        "it did not fail"},
    [CAUSE_RANK_CRASH] = {"rank_crash", true,
        "a signal that nobody of ours sent"},
    [CAUSE_WRONG_PROCESSOR] = {"wrong_processor", false,
        "built for another processor"},
    [CAUSE_HANG_INIT] = {"hang_init", true,
        "a rank stands still before the first step"},
    [CAUSE_HANG_STEP] = {"hang_step", true,
        "a rank stands still, or the output ceased"},
    [CAUSE_DESYNC] = {"desync", true,
        "the ranks disagree on what the step is"},
    [CAUSE_NCCL_ERROR] = {"nccl_error", true,
        "a collective failed: the network, or a peer"},
    [CAUSE_DUPLICATE_GPU] = {"duplicate_gpu", false,
        "two ranks on one GPU"},
    [CAUSE_GPU_OOM] = {"gpu_oom", true,
        "out of GPU memory"},
    [CAUSE_HOST_OOM] = {"host_oom", true,
        "out of host memory"},
    [CAUSE_GPU_FAULT] = {"gpu_fault", true,
        "a GPU, or its link, is broken"},
    [CAUSE_NODE_LOST] = {"node_lost", true,
        "the node is gone"},
    [CAUSE_PREEMPTED] = {"preempted", true,
        "somebody else ended it"},
    [CAUSE_TIME_LIMIT] = {"time_limit", true,
        "its time was over"},
    [CAUSE_NAN_LOSS] = {"nan_loss", true,
        "loss or gradients are NaN or infinite, or a number of `watch:` is too high"},
    [CAUSE_DATA_ERROR] = {"data_error", false,
        "the data is missing or damaged"},
    [CAUSE_CHECKPOINT_ERROR] = {"checkpoint_error", true,
        "a checkpoint cannot be written or read"},
    [CAUSE_DISK_FULL] = {"disk_full", true,
        "no room on a disk"},
    [CAUSE_CONFIG_ERROR] = {"config_error", false,
        "it can never work like this"},
    [CAUSE_USER_EXIT] = {"user_exit", true,
        "a command's own exit code"},
    [CAUSE_AGENT_LOST] = {"agent_lost", true,
        "the agent is gone"},
    [CAUSE_UNKNOWN] = {"unknown", true,
        "none of the above"},
};

/* Exit codes with a meaning (engine/contract/exit_code.h), for whoever uses them. */
static const struct {
    int code;
    enum cause cause;
    const char *text;
} codes[] = {
    {EXIT_CONFIG, CAUSE_CONFIG_ERROR, "its configuration is wrong"},
    {EXIT_DATA, CAUSE_DATA_ERROR, "the training data is missing or malformed"},
    {EXIT_CHECKPOINT, CAUSE_CHECKPOINT_ERROR, "a checkpoint could not be written or read"},
    {EXIT_NO_DEVICE, CAUSE_CONFIG_ERROR, "there is no usable device"},
    {EXIT_BUG, CAUSE_UNKNOWN, "it found a bug in itself"},
    {EXIT_HOST_MEMORY, CAUSE_HOST_OOM, "it ran out of host memory"},
    {EXIT_GPU_MEMORY, CAUSE_GPU_OOM, "it ran out of GPU memory"},
    {EXIT_GPU_FAULT, CAUSE_GPU_FAULT, "the GPU failed"},
    {EXIT_COLLECTIVE, CAUSE_NCCL_ERROR, "a collective failed or timed out"},
    {EXIT_ABORTED, CAUSE_PREEMPTED, "it was asked to stop, though not by its agent"},
    {EXIT_NAN, CAUSE_NAN_LOSS, "loss or gradients are NaN or infinite"},
    {EXIT_DESYNC, CAUSE_DESYNC, "the ranks disagree on the step they are at"},
    {EXIT_DISK_FULL, CAUSE_DISK_FULL, "the disk is full"},
};

const char *cause_name(enum cause cause)
{
    return (unsigned)cause < CAUSES ? causes[cause].name : "unknown";
}

const char *cause_meaning(enum cause cause)
{
    return (unsigned)cause < CAUSES ? causes[cause].meaning : "";
}

int cause_parse(enum cause *cause, const char *name)
{
    for (int i = 0; name && i < CAUSES; i++)
        if (strcmp(causes[i].name, name) == 0) {
            *cause = (enum cause)i;
            return 0;
        }
    return -1;
}

bool cause_retry_helps(enum cause cause)
{
    return (unsigned)cause < CAUSES && causes[cause].retry_helps;
}

static const char *signal_name(int signo)
{
    static const char *const names[] = {
        [1] = "SIGHUP",   [2] = "SIGINT",   [3] = "SIGQUIT",  [4] = "SIGILL",   [5] = "SIGTRAP",
        [6] = "SIGABRT",  [7] = "SIGBUS",   [8] = "SIGFPE",   [9] = "SIGKILL",  [10] = "SIGUSR1",
        [11] = "SIGSEGV", [12] = "SIGUSR2", [13] = "SIGPIPE", [14] = "SIGALRM", [15] = "SIGTERM",
        [24] = "SIGXCPU", [25] = "SIGXFSZ", [31] = "SIGSYS",
    };
    if (signo > 0 && (size_t)signo < ARRAY_LEN(names) && names[signo])
        return names[signo];
    return "signal";
}

__attribute__((format(printf, 2, 3))) static void say(struct verdict *out, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(out->detail, sizeof(out->detail), fmt, ap);
    va_end(ap);
}

/* "exited with code 3", and the line that tells, or its last word. */
static void say_exit(struct verdict *out, const struct evidence *e)
{
    size_t len = 0;
    const char *line = out->line[0] ? out->line : rules_telling_line(e->last_lines, &len);
    if (out->line[0])
        len = strlen(line);
    if (line)
        say(out, "exited with code %d: %.*s", e->exit_code, (int)(len > 160 ? 160 : len), line);
    else
        say(out, "exited with code %d", e->exit_code);
}

/* What a rule proves; false: nothing. */
static bool apply_rule(struct verdict *out, const char *lines)
{
    size_t len = 0;
    const char *line = NULL;
    const struct rule *r = rules_find(lines, &line, &len);
    if (!r)
        return false;
    len -= len && line[len - 1] == '\r';
    out->cause = r->cause;
    out->echo = r->kind == RULE_ECHO;
    out->retry_helps = causes[r->cause].retry_helps || r->kind == RULE_AGAIN;
    out->advice = r->advice;
    snprintf(out->line, sizeof(out->line), "%.*s", (int)len, line);
    return true;
}

/* A signal whose sender may have told why: abort() after a message, SIGKILL or SIGTERM from outside.
 * SIGBUS is what a full /dev/shm does. */
static bool may_be_explained(int signo)
{
    return signo == 6 || signo == 7 || signo == 9 || signo == 15;
}

/* The same instruction fails again on the same machine, however often it is tried. */
static void classify_illegal(struct verdict *out, const struct evidence *e)
{
    out->cause = CAUSE_WRONG_PROCESSOR;
    out->advice = e->engine ? "set JOBCTL_CPU=base in env:, and report this"
                            : "build or install it for this machine's processor, or name other hosts";
    say(out, "was killed by SIGILL (4): it was built for another processor, or stopped itself by a trap");
}

static void classify_signal(struct verdict *out, const struct evidence *e, int signo)
{
    if (e->stop_asked) {
        out->cause = CAUSE_NONE;
        say(out, "was stopped by %s (%d)", signal_name(signo), signo);
        return;
    }
    if (may_be_explained(signo) && apply_rule(out, e->last_lines)) {
        say(out, "was killed by %s (%d): %.150s", signal_name(signo), signo, out->line);
        return;
    }
    if (signo == 4) {
        classify_illegal(out, e);
        return;
    }
    out->cause = CAUSE_RANK_CRASH;
    if (signo == 15 || signo == 24)
        out->cause = signo == 15 ? CAUSE_PREEMPTED : CAUSE_TIME_LIMIT;
    if (signo == 7)
        say(out, "was killed by SIGBUS (7): a mapped file or /dev/shm may be full or truncated");
    else if (signo == 15)
        say(out, "was ended by SIGTERM (15), which jobctl did not send");
    else
        say(out, "was killed by %s (%d)", signal_name(signo), signo);
}

static void classify_exit(struct verdict *out, const struct evidence *e)
{
    if (e->exit_code == 0 || (e->stop_asked && e->exit_code == EXIT_ABORTED)) {
        out->cause = CAUSE_NONE;
        say(out, e->exit_code ? "stopped on request" : "exited with code 0");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(codes); i++)
        if (codes[i].code == e->exit_code) {
            out->cause = codes[i].cause;
            say(out, "exited with code %d: %.150s", e->exit_code,
                e->text && *e->text ? e->text : codes[i].text);
            return;
        }
    if (e->engine || !apply_rule(out, e->last_lines)) {
        out->cause = e->engine ? CAUSE_UNKNOWN : CAUSE_USER_EXIT;
        if (!e->engine && (e->exit_code == 126 || e->exit_code == 127))
            out->cause = CAUSE_CONFIG_ERROR; /* the shell: not executable, not found */
    }
    say_exit(out, e);
}

/* Its own word.  That of a collective is refined: who waited in vain, and where. */
static void take_word(struct verdict *out, const struct evidence *e, enum cause reported)
{
    if (reported != CAUSE_NCCL_ERROR || !apply_rule(out, e->text)) {
        out->cause = reported;
        out->echo = reported == CAUSE_NCCL_ERROR;
    }
    say(out, "exited with code %d: %.150s", e->exit_code,
        e->text && *e->text ? e->text : cause_name(reported));
    out->line[0] = '\0'; /* the sentence has it */
}

void cause_classify(struct verdict *out, const struct evidence *e, int rank)
{
    *out = (struct verdict){.cause = CAUSE_UNKNOWN};
    enum cause reported;
    bool failed = e->signalled || e->exit_code != 0;
    if (e->oom_killed) {
        out->cause = CAUSE_HOST_OOM;
        say(out, "was killed by the kernel: the machine or its memory limit is out of memory");
    } else if (failed && !e->stop_asked && apply_rule(out, e->kernel)) {
        say(out, "failed, and the kernel says: %.150s", out->line);
    } else if (e->reported && !e->signalled && e->exit_code != 0 &&
               cause_parse(&reported, e->reported) == 0 && reported != CAUSE_NONE) {
        take_word(out, e, reported);
    } else if (e->signalled) {
        classify_signal(out, e, e->signo);
    } else if (!e->engine && e->exit_code > 128 && e->exit_code < 128 + 32) {
        classify_signal(out, e, e->exit_code - 128); /* a shell tells of its child */
    } else {
        classify_exit(out, e);
    }
    out->retry_helps = out->retry_helps || causes[out->cause].retry_helps;
    out->echo = out->echo || out->cause == CAUSE_NCCL_ERROR;
    snprintf(out->text, sizeof(out->text), "rank %d %s", rank, out->detail);
}
