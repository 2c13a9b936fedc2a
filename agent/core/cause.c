/* SPDX-License-Identifier: Apache-2.0 */
/* cause.c - rules, strongest evidence first: kernel, rank's report, signal, exit code, output */
#include "agent/core/cause.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "agent/core/rules.h"
#include "agent/printed/failure_reason.h"
#include "agent/printed/text_line.h"
#include "engine/contract/exit_code.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { CODE_PIPE = 128 + 13 };

/* One row per cause: name, whether the same run may succeed on a retry, and meaning. */
static const struct {
    const char *name;
    bool retry_helps;
    const char *meaning;
} causes[CAUSES] = {
    [CAUSE_NONE] = {"none", false, "no failure"},
    [CAUSE_RANK_CRASH] = {"rank_crash", true, "killed by a signal that jobctl did not send"},
    [CAUSE_WRONG_PROCESSOR] = {"wrong_processor", false, "built for another processor"},
    [CAUSE_HANG_INIT] = {"hang_init", true, "a rank hangs before the first step"},
    [CAUSE_HANG_STEP] = {"hang_step", true, "a rank hangs, or its output stopped"},
    [CAUSE_DESYNC] = {"desync", true, "the ranks are at different steps"},
    [CAUSE_NCCL_ERROR] = {"nccl_error", true, "a collective failed: the network or a peer"},
    [CAUSE_DUPLICATE_GPU] = {"duplicate_gpu", false, "two ranks on one GPU"},
    [CAUSE_TOO_FEW_GPUS] = {"too_few_gpus", false, "a node has too few healthy GPUs for the job; other nodes are tried"},
    [CAUSE_GPU_OOM] = {"gpu_oom", true, "out of GPU memory"},
    [CAUSE_HOST_OOM] = {"host_oom", true, "out of host memory"},
    [CAUSE_GPU_FAULT] = {"gpu_fault", true, "a GPU or its link failed"},
    [CAUSE_CUDA_ERROR] = {"cuda_error", true, "CUDA failed, and no hardware reported an error"},
    [CAUSE_NODE_LOST] = {"node_lost", true, "the node was lost"},
    [CAUSE_PREEMPTED] = {"preempted", true, "stopped from outside jobctl"},
    [CAUSE_TIME_LIMIT] = {"time_limit", true, "the time limit was reached"},
    [CAUSE_NAN_LOSS] =
        {"nan_loss", true,
         "loss or gradients are NaN or infinite, or a value of `watch:` exceeds its limit"},
    [CAUSE_DATA_ERROR] = {"data_error", false, "the data is missing or damaged"},
    [CAUSE_CHECKPOINT_ERROR] = {"checkpoint_error", true, "a checkpoint cannot be written or read"},
    [CAUSE_DISK_FULL] = {"disk_full", true, "a disk is full"},
    [CAUSE_IO_ERROR] = {"io_error", true, "a disk or network file system failed"},
    [CAUSE_RESOURCE_LIMIT] =
        {"resource_limit", true, "out of file descriptors, processes or threads"},
    [CAUSE_DIR_IN_USE] = {"dir_in_use", true, "another job writes into its checkpoint.dir"},
    [CAUSE_NETWORK_ERROR] = {"network_error", true, "a download failed: no network, or a server that does not answer"},
    [CAUSE_CONFIG_ERROR] =
        {"config_error", false,
         "the configuration or environment is wrong; a retry fails the same way"},
    [CAUSE_USER_EXIT] = {"user_exit", true, "the command exited with an error code"},
    [CAUSE_AGENT_LOST] = {"agent_lost", true, "the agent was lost"},
    [CAUSE_START_FAILED] = {"start_failed", true, "no agent could be started"},
    [CAUSE_SLURM_REFUSED] = {"slurm_refused", false, "Slurm refuses an option of the job"},
    [CAUSE_HOST_UNUSABLE] = {"host_unusable", false, "a host cannot run an agent; other hosts of the job are tried"},
    [CAUSE_HOST_UNREACHABLE] = {"host_unreachable", true, "a host refuses the connection or login, or does not answer"},
    [CAUSE_UNKNOWN] = {"unknown", true, "none of the above"},
};

/* Exit codes with a meaning (engine/contract/exit_code.h), whichever program uses them. */
static const struct {
    int code;
    enum cause cause;
    const char *text;
} codes[] = {
    {EXIT_CONFIG, CAUSE_CONFIG_ERROR, "its configuration is invalid"},
    {EXIT_DATA, CAUSE_DATA_ERROR, "the training data is missing or malformed"},
    {EXIT_CHECKPOINT, CAUSE_CHECKPOINT_ERROR, "a checkpoint could not be written or read"},
    {EXIT_NO_DEVICE, CAUSE_CONFIG_ERROR, "no usable device"},
    {EXIT_BUG, CAUSE_UNKNOWN, "internal error: a self-check failed"},
    {EXIT_HOST_MEMORY, CAUSE_HOST_OOM, "out of host memory"},
    {EXIT_GPU_MEMORY, CAUSE_GPU_OOM, "out of GPU memory"},
    {EXIT_GPU_FAULT, CAUSE_GPU_FAULT, "the GPU failed"},
    {EXIT_COLLECTIVE, CAUSE_NCCL_ERROR, "a collective failed or timed out"},
    {EXIT_ABORTED, CAUSE_PREEMPTED, "stopped on a request that did not come from jobctl"},
    {EXIT_NAN, CAUSE_NAN_LOSS, "loss or gradients are NaN or infinite"},
    {EXIT_DESYNC, CAUSE_DESYNC, "the ranks are at different steps"},
    {EXIT_DISK_FULL, CAUSE_DISK_FULL, "the disk is full"},
    {EXIT_IO, CAUSE_IO_ERROR, "a disk or network file system failed"},
    {EXIT_LIMIT, CAUSE_RESOURCE_LIMIT, "out of file descriptors, processes or threads"},
    {EXIT_DIR_IN_USE, CAUSE_DIR_IN_USE, "another job has taken over the checkpoint directory"},
    {EXIT_NETWORK, CAUSE_NETWORK_ERROR, "a download failed"},
    {EXIT_CUDA, CAUSE_CUDA_ERROR, "a CUDA call failed"},
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

/* "exited with code 3", and the reason that it printed. */
static void say_exit(struct verdict *out, const struct evidence *e, const char *reason)
{
    if (*reason)
        say(out, "exited with code %d: %s", e->exit_code, reason);
    else
        say(out, "exited with code %d; no reason was printed", e->exit_code);
}

static void take_rule(struct verdict *out, const struct rule *r, const char *line, size_t len)
{
    const size_t blanks = strspn(line, " \t");
    line += blanks < len ? blanks : 0;
    len -= blanks < len ? blanks : 0;
    len -= len && line[len - 1] == '\r';
    out->cause = r->cause;
    out->echo = r->kind == RULE_ECHO;
    out->retry_helps = causes[r->cause].retry_helps;
    out->advice = r->advice;
    snprintf(out->line, sizeof(out->line), "%.*s", (int)len, line);
}

/* Applies the matching rule; false: none matches. */
static bool apply_rule(struct verdict *out, const char *lines)
{
    size_t len = 0;
    const char *line = NULL;
    const struct rule *r = rules_find(lines, &line, &len);
    if (r)
        take_rule(out, r, line, len);
    return r != NULL;
}

/* The rule that the output proves: by the exceptions that ended it, else by any line. */
static bool apply_reason(struct verdict *out, const struct failure_reason *why, const char *lines)
{
    size_t len = 0;
    const char *line = NULL;
    const struct rule *r = rules_of_exception(why->last), *root = rules_of_exception(why->root);
    if (!r || (root && root < r)) /* rows are ordered from proof to symptom */
        r = root;
    if (r) {
        take_rule(out, r, why->text, strlen(why->text));
        return true;
    }
    r = why->mistake ? rules_find_proof(lines, &line, &len) : rules_find(lines, &line, &len);
    if (r)
        take_rule(out, r, line, len);
    return r != NULL;
}

/* "train.py:41: RuntimeError", if another try may well end in the same way. */
static void note_place(struct verdict *out, const struct failure_reason *why)
{
    if (out->cause == CAUSE_USER_EXIT && why->kind == FAILURE_EXCEPTION && why->place[0] && !why->passing)
        snprintf(out->place, sizeof(out->place), "%.60s: %.*s", why->place, (int)strcspn(why->last, ":"), why->last);
}

/* A signal that the output may explain: abort() after a message, SIGKILL or SIGTERM from
 * outside, SIGBUS from a full /dev/shm. */
static bool may_be_explained(int signo)
{
    return signo == 6 || signo == 7 || signo == 9 || signo == 15;
}

/* SIGILL: the same instruction fails on every try on the same machine. */
static void classify_illegal(struct verdict *out, const struct evidence *e)
{
    out->cause = CAUSE_WRONG_PROCESSOR;
    out->advice = e->engine
                      ? "set JOBCTL_CPU=base in env: and report this bug"
                      : "build the program for this machine's processor, or choose other hosts";
    say(out, "was killed by SIGILL (4): built for another processor, or a trap in the program");
}

/* "was killed by SIGSEGV (11) at train.py:3: message" */
static void say_signal(struct verdict *out, int signo, const struct failure_reason *why)
{
    const bool python = strncmp(why->text, "Fatal Python error: ", 20) == 0 && why->place[0]; /* the signal's name */
    const bool told = (why->kind == FAILURE_CRASH || why->kind == FAILURE_SHELL) && !python;
    say(out, "was killed by %s (%d)%s%s%s%s", signal_name(signo), signo, why->place[0] ? " at " : "", why->place,
        told ? ": " : "", told ? why->text : "");
}

static void classify_signal(struct verdict *out, const struct evidence *e, int signo)
{
    char text[OUTPUT_TEXT_BYTES];
    struct failure_reason why;
    if (e->stop_asked) {
        out->cause = CAUSE_NONE;
        say(out, "was stopped by %s (%d)", signal_name(signo), signo);
        return;
    }
    text_line_clean(text, sizeof(text), e->last_lines);
    if (may_be_explained(signo) && apply_rule(out, text)) {
        say(out, "was killed by %s (%d): %s", signal_name(signo), signo, out->line);
        return;
    }
    if (signo == 4) {
        classify_illegal(out, e);
        return;
    }
    out->cause = CAUSE_RANK_CRASH;
    if (signo == 15 || signo == 24)
        out->cause = signo == 15 ? CAUSE_PREEMPTED : CAUSE_TIME_LIMIT;
    failure_reason_read(&why, text, e->command, true);
    if (signo == 7)
        say(out, "was killed by SIGBUS (7): a mapped file or /dev/shm may be full or truncated");
    else if (signo == 15)
        say(out, "was killed by SIGTERM (15), which jobctl did not send");
    else
        say_signal(out, signo, &why);
}

/* A command that failed: the reason in its output. */
static void classify_output(struct verdict *out, const struct evidence *e)
{
    char text[OUTPUT_TEXT_BYTES];
    struct failure_reason why;
    text_line_clean(text, sizeof(text), e->last_lines);
    failure_reason_read(&why, text, e->command, false);
    if (!apply_reason(out, &why, text)) {
        out->cause = CAUSE_USER_EXIT;
        if (e->exit_code == 126 || e->exit_code == 127)
            out->cause = CAUSE_CONFIG_ERROR; /* the shell's codes: not executable, not found */
    }
    out->passing = why.passing;
    note_place(out, &why);
    /* The output of a rank that is being stopped gives no reason, unless it shows a failure. */
    out->echo = out->echo || (e->stop_asked && (why.interrupted || why.kind == FAILURE_SILENT));
    const bool vague = why.kind != FAILURE_EXCEPTION && why.kind != FAILURE_CRASH;
    if (e->exit_code == CODE_PIPE && why.kind == FAILURE_SILENT)
        snprintf(why.text, sizeof(why.text), "a program " FAILURE_PIPE);
    const bool other = out->line[0] && !strstr(why.text, out->line) && why.kind != FAILURE_LAUNCHER;
    say_exit(out, e, other && (vague || !out->echo) ? out->line : why.text);
}

/* The engine's last line is its reason. */
const char *cause_last_line(char *out, size_t size, const char *lines)
{
    *out = '\0';
    for (const char *p = lines; p && *p;) {
        const size_t n = strcspn(p, "\n");
        if (strspn(p, " \t\r") < n)
            snprintf(out, size, "%.*s", (int)n, p);
        p += n + (p[n] == '\n');
    }
    return out;
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
            say(out, "exited with code %d: %.400s", e->exit_code, e->text && *e->text ? e->text : codes[i].text);
            return;
        }
    if (!e->engine) {
        classify_output(out, e);
        return;
    }
    out->cause = CAUSE_UNKNOWN;
    char last[161];
    say_exit(out, e, cause_last_line(last, sizeof(last), e->last_lines));
}

/* The rank's own report. For a failed collective the rules refine it: which rank was missing,
 * and where. */
static void take_word(struct verdict *out, const struct evidence *e, enum cause reported)
{
    if (reported != CAUSE_NCCL_ERROR || !apply_rule(out, e->text)) {
        out->cause = reported;
        out->echo = reported == CAUSE_NCCL_ERROR;
    }
    say(out, "exited with code %d: %.400s", e->exit_code, e->text && *e->text ? e->text : cause_name(reported));
    out->line[0] = '\0'; /* the sentence already contains it */
}

void cause_classify(struct verdict *out, const struct evidence *e, int rank)
{
    *out = (struct verdict){.cause = CAUSE_UNKNOWN};
    enum cause reported;
    bool failed = e->signalled || e->exit_code != 0;
    if (e->oom_killed) {
        out->cause = CAUSE_HOST_OOM;
        say(out, "was killed by the kernel: out of memory (machine or memory limit)");
    } else if (failed && !e->stop_asked && apply_rule(out, e->kernel)) {
        say(out, "failed; kernel log: %.150s", out->line);
    } else if (e->reported && !e->signalled && e->exit_code != 0 &&
               cause_parse(&reported, e->reported) == 0 && reported != CAUSE_NONE) {
        take_word(out, e, reported);
    } else if (e->signalled) {
        classify_signal(out, e, e->signo);
    } else if (!e->engine && e->exit_code > 128 && e->exit_code < 128 + 32 && e->exit_code != CODE_PIPE) {
        classify_signal(out, e, e->exit_code - 128); /* as a shell reports its child's signal */
    } else {
        classify_exit(out, e);
    }
    if (out->cause == CAUSE_CUDA_ERROR && !out->advice)
        out->advice = "this is a fault of the program, unless it happens on one GPU only";
    out->retry_helps = out->retry_helps || causes[out->cause].retry_helps;
    out->echo = out->echo || out->cause == CAUSE_NCCL_ERROR;
    snprintf(out->text, sizeof(out->text), "rank %d %s", rank, out->detail);
}
