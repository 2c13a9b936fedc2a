/* SPDX-License-Identifier: Apache-2.0 */
/* trouble_line.c - see trouble_line.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/trouble_line.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "agent/printed/printed_progress.h"
#include "agent/printed/printed_table.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum { LAST_LINES = 3, MARKED_LINES = 20 };

static const char *const words[] = {
    "abort", "aborted", "aborting", "bad", "broken", "can't", "cannot", "corrupt", "corrupted", "couldn't", "crash",
    "crashed", "damaged", "denied", "diverged", "doesn't", "empty", "error", "exceeded", "exceeds", "exception",
    "exhausted", "expected", "failed", "failure", "fails", "fatal", "forbidden", "illegal", "incompatible",
    "insufficient", "invalid", "killed", "mismatch", "missing", "must", "nan", "need", "needs", "panic",
    "refused", "require", "required", "requires", "segfault", "terminated", "timeout", "unable", "undefined",
    "unexpected", "unknown", "unrecognized", "unreachable", "unsupported", "wrong", "giving up", "gave up",
    "not found", "no such", "not enough", "does not", "is not", "are not", "not supported", "not a", "not allowed",
    "no module named", "no rule to", "could not", "did not", "out of", "timed out", "too few", "too large", "too many", "too small",
    "too long", "stopped early",
};

/* Heads of lines that are errors whatever they say. */
static const char *const marks[] = {"error:", "error ", "error]", "fatal:", "fatal ", "fatal]", "critical:",
                                    "critical ", "critical]", "err:", "usage error"};

/* Launchers, loggers and hints. */
static const char *const echoes[] = {
    "HYDRA_FULL_ERROR", "wandb:", "srun: error:", "slurmstepd: ", "mpirun", "mpiexec", "prterun", "MPI_ABORT",
    "MPI_Abort", "] Error ", "ChildFailedError", "failed (exitcode:", "Sending process ", "closing signal",
    "exits with return code", "sigkill_handler", "Exited with exit code", "returned non-zero exit status",
    "error_file:", "traceback :", "exitcode  :", "To enable traceback see", "Root Cause (first", "FAILED",
    "Other Failures", "<NO_OTHER_FAILURES>", "npm ERR!", "ELIFECYCLE", "Primary job  terminated", "a non-zero exit code",
    "Aborted (core dumped)", "core dumped", "Error executing job with overrides", "exited on signal",
};

bool trouble_line_is_echo(struct text_line line)
{
    for (size_t i = 0; i < ARRAY_LEN(echoes); i++)
        if (text_line_find(line, echoes[i]))
            return true;
    return line.n < 3 || strspn(line.at, "=-*#_~ ") >= line.n;
}

/* The fields of printed_progress.h that the line tells. */
static unsigned progress_of(struct text_line line)
{
    char copy[1024];
    struct printed_table table = {0};
    struct printed_progress p;
    snprintf(copy, sizeof(copy), "%.*s", (int)line.n, line.at);
    printed_progress_line(&p, copy, &table);
    return p.told;
}

static bool is_progress(struct text_line line)
{
    return progress_of(line) != 0;
}

/* A line of training: what stands before it has not ended the program. */
static bool is_step(struct text_line line)
{
    static const unsigned both = 1u << PRINTED_STEP | 1u << PRINTED_LOSS;
    return (progress_of(line) & both) == both;
}

static void lower(char *out, size_t size, struct text_line line)
{
    snprintf(out, size, "%.*s", (int)(line.n < size ? line.n : size - 1), line.at);
    for (char *p = out; *p; p++)
        *p = (char)tolower((unsigned char)*p);
}

static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = text; (p = strstr(p, word)); p++)
        if ((p == text || !isalnum((unsigned char)p[-1])) && !isalnum((unsigned char)p[n]) &&
            !isdigit((unsigned char)p[n + strspn(p + n, " =:(")])) /* "val error 0.31" is a number of a run */
            return true;
    return false;
}

static bool is_trouble(struct text_line line)
{
    char text[512];
    lower(text, sizeof(text), line);
    if (strstr(text, "warn"))
        return false;
    if (strncmp(text, "no ", 3) == 0 || strncmp(text, "not ", 4) == 0) /* "no space left in scratch" */
        return !is_progress(line);
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (has_word(text, words[i]))
            return !is_progress(line);
    return false;
}

/* "error: no data", "2026-01-01 10:00:00 [ERROR] x", "train.py: error: y" */
static bool is_marked(struct text_line line)
{
    char text[512];
    const char *end = text_line_find(line, ": ");
    const size_t name = end ? (size_t)(end - line.at) : line.n;
    if (name > 5 && memcmp(line.at + name - 5, "Error", 5) == 0 && !memchr(line.at, ' ', name))
        return true; /* an exception without its traceback */
    lower(text, sizeof(text), line);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        const char *at = strstr(text, marks[i]);
        const bool head = at == text || (at && at - text < 60 && strchr("[: -|", at[-1]));
        const bool upper = at && isupper((unsigned char)line.at[at - text]);
        const bool colon = marks[i][strlen(marks[i]) - 1] == ':';
        if (at && head && (at == text || colon || (upper && isupper((unsigned char)line.at[at - text + 1]))))
            return !is_progress(line);
    }
    return false;
}

struct text_line trouble_line_find(const char *text)
{
    struct text_line last[MARKED_LINES], line;
    size_t n = 0;
    while (text_line_next(&text, &line)) {
        line = text_line_trim(line);
        n = is_step(line) ? 0 : n;
        if (line.n && !trouble_line_is_echo(line))
            last[n++ % MARKED_LINES] = line;
    }
    for (size_t i = n; i > 0 && i + MARKED_LINES > n; i--)
        if (is_marked(last[(i - 1) % MARKED_LINES]))
            return last[(i - 1) % MARKED_LINES];
    for (size_t i = n; i > 0 && i + LAST_LINES > n; i--)
        if (is_trouble(last[(i - 1) % MARKED_LINES]))
            return last[(i - 1) % MARKED_LINES];
    return (struct text_line){NULL, 0};
}
