/* SPDX-License-Identifier: Apache-2.0 */
/* failure_reason.c - see failure_reason.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/printed/failure_reason.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/printed/printed_progress.h"
#include "agent/os/shell_trap.h"
#include "engine/base/text_append.h"
#include "engine/base/utf8.h"

enum { LAST_SHOWN = 220, ROOT_SHOWN = 120, LINE_SHOWN = 200, CRASH_TEXT = 320, LAST_LINES = 3, MARKED_LINES = 20 };

/* Exceptions of those who start or stop others. */
static const char *const weak[] = {"ChildFailedError", "CalledProcessError", "SystemExit", "KeyboardInterrupt",
                                   "SignalException", "ProcessExitedException", "BrokenProcessPool", "CancelledError",
                                   NULL};

/* The launchers whose output has the tracebacks of several programs. */
static const char *const launchers[] = {"ChildFailedError", "mpirun", "MPI_ABORT", "srun: error:",
                                        "exits with return code", "failed (exitcode:", NULL};

static const char *const mistakes[] = {
    "AttributeError", "AssertionError", "IndexError", "KeyError", "NameError", "NotImplementedError", "RecursionError",
    "TypeError", "UnboundLocalError", "ValueError", "ZeroDivisionError", "SyntaxError", "IndentationError", "TabError",
    "JSONDecodeError", "ModuleNotFoundError", "ImportError", "UnicodeDecodeError", NULL,
};

/* Parts of what may pass by itself. */
static const char *const passing[] = {
    "Connection", "Timeout", "timed out", "HTTPError", "URLError", "gaierror", "SSLError", "IncompleteRead",
    "BrokenPipe", "BlockingIOError", "OSError", "OperationalError", "Unavailable", "unavailable", "temporar",
    "CUDA error", "cuDNN error", "CUBLAS", "NCCL", "Dist", "connect", "network", "Network", "HIP error",
    "Too Many Requests", "rate limit", NULL,
};

/* The same in words of programs other than Python's. */
static const char *const passing_words[] = {
    "ould not resolve", "Temporar", "unreachable", "returned error: 5", "Gateway", "Read-only file system",
    "Input/output error", "tale file handle", "in use", "busy", NULL,
};

/* Parts of what sounds so, and is there to stay: a PyTorch without what the script wants. */
static const char *const lasting[] = {"NCCL built in", "no GPUs found", "not compiled with CUDA", NULL};

/* --- which traceback -------------------------------------------------------------------- */

/* A chain of tracebacks: how the first came to the last. */
struct choice {
    const struct traceback *last; /* the one that ended the program; NULL: there is no traceback */
    const struct traceback *root; /* the one that began it: the same, where there is no chain */
    enum traceback_link link;     /* how they belong together */
    bool weak;                    /* it only reports that something else failed, or an interruption */
};

static bool is_weak(const struct traceback *t)
{
    const char *worker = strstr(t->text, "DataLoader worker (pid");
    return traceback_is(t, weak) || (worker && strstr(worker, "exited unexpectedly"));
}

/* torchrun's table says which rank failed first: the line of it, or NULL. */
static const char *first_failure(const char *text)
{
    const char *at = strstr(text, "Root Cause (first observed failure)");
    return at ? strstr(at, "\n  rank ") : NULL;
}

static bool is_of_rank(const struct traceback *t, const char *first)
{
    char a[32], b[32];
    const char *colon = first ? strchr(first, ':') : NULL;
    const int rank = colon ? atoi(colon + 1) : -1;
    snprintf(a, sizeof(a), "[rank%d]", rank);
    snprintf(b, sizeof(b), "[default%d]", rank);
    return rank >= 0 && (strstr(t->prefix, a) || strstr(t->prefix, b));
}

/* It went on training after that. */
static bool goes_on(const char *text)
{
    struct text_line line;
    while (text_line_next(&text, &line))
        if (printed_progress_is_step(line))
            return true;
    return false;
}

/* chain[i]: the first traceback of the chain of i. */
static void build(int *chain, const struct traceback *all, int n)
{
    for (int i = 0; i < n; i++) {
        chain[i] = i;
        for (int j = i - 1; j >= 0 && chain[i] == i && all[i].link != TRACEBACK_ALONE; j--)
            if (all[i].link == TRACEBACK_MEMBER || strcmp(all[j].prefix, all[i].prefix) == 0)
                chain[i] = chain[j];
    }
}

static int end_of(const int *chain, int n, int first)
{
    int last = first;
    for (int i = first; i < n; i++)
        last = chain[i] == first ? i : last;
    return last;
}

/* The first traceback of the best chain, or -1.  Of several programs the first to fail counts, of one the last. */
static int choose(const int *chain, const struct traceback *all, int n, const char *text)
{
    const bool launcher = text_line_has((struct text_line){text, strlen(text)}, launchers);
    const char *first = launcher ? first_failure(text) : NULL;
    int best = -1, best_grade = 3;
    for (int i = 0; i < n; i++) {
        const struct traceback *last = &all[end_of(chain, n, i)];
        if (chain[i] != i || (!launcher && goes_on(last->end)))
            continue;
        const int grade = is_weak(last) ? 2 : last->aside ? 1 : 0;
        const bool newer = !launcher || (is_of_rank(&all[i], first) && !is_of_rank(&all[best < 0 ? i : best], first));
        if (grade < best_grade || (grade == best_grade && newer)) {
            best = i;
            best_grade = grade;
        }
    }
    return best;
}

static struct choice make_choice(const struct traceback *all, int n, const char *text)
{
    int chain[TRACEBACKS];
    build(chain, all, n);
    const int first = choose(chain, all, n, text);
    if (first < 0)
        return (struct choice){0};
    const int last = end_of(chain, n, first);
    struct choice c = {&all[last], &all[first], all[last].link, false};
    for (int i = last; i > first; i--)
        if (chain[i] == first && (all[i].link == TRACEBACK_ORIGINAL || all[i].link == TRACEBACK_MEMBER))
            c = (struct choice){&all[first], &all[i], all[i].link, false}; /* these stand behind what they caused */
    c.weak = is_weak(c.last) && is_weak(c.root);
    return c;
}

/* --- crashes ---------------------------------------------------------------------------- */

/* What a program that is not a Python script prints when it ends itself: C++ exceptions, glibc's checks, assertions,
 * sanitizers, Python's fault handler with the user's line, panics of Rust and Go. */
struct crash {
    char text[CRASH_TEXT];      /* "std::runtime_error: boom"; "" = none */
    char place[SOURCE_PLACE];   /* the user's line where Python crashed, or "" */
    const char *at;             /* where it stands in the text */
};

/* What is shown begins there, or ... */
static const char *const parts[] = {
    "*** stack smashing detected ***", "*** buffer overflow detected ***", "double free or corruption",
    "corrupted size vs. prev_size", "corrupted double-linked list", "free(): invalid", "free(): double free",
    "malloc(): ", "realloc(): ", "munmap_chunk(): ", "terminate called without an active exception",
    "terminate called recursively", "AddressSanitizer: ", "LeakSanitizer: ", "ThreadSanitizer: ", "ERROR: LoadError: ",
    "fatal error: unexpected signal", NULL};
/* ... at the start of the line. */
static const char *const whole[] = {"libc++abi: ", ": runtime error: ", ": Assertion `", "Exception in thread \"",
                                    NULL};

static void set_crash(struct crash *out, struct text_line first, struct text_line second)
{
    first = text_line_trim(first);
    second = text_line_trim(second);
    out->at = first.at;
    snprintf(out->text, sizeof(out->text), "%.*s%s%.*s", (int)utf8_fit(first.at, first.n, 200), first.at,
             second.n ? " " : "", (int)utf8_fit(second.at, second.n, 110), second.n ? second.at : "");
}

/* "terminate called after throwing an instance of 'T'", and on the next line "what():  text". */
static bool take_thrown(struct crash *out, struct text_line line, const char *next)
{
    static const char thrown[] = "terminate called after throwing an instance of '", what[] = "what():";
    const char *at = text_line_find(line, thrown);
    struct text_line said;
    if (!at)
        return false;
    const struct text_line type = text_line_from(line, at + strlen(thrown));
    const char *end = text_line_find(type, "'");
    set_crash(out, end ? text_line_before(type, end) : type, (struct text_line){0});
    if (text_line_next(&next, &said) && (at = text_line_find(said, what))) {
        said = text_line_trim(text_line_from(said, at + strlen(what)));
        text_append(out->text, sizeof(out->text), ": %.*s", (int)said.n, said.at);
    }
    return true;
}

/* The place in the frames of the thread that crashed, innermost first. */
static void take_frames(struct crash *out, const char *text)
{
    struct source_place first = {0};
    struct text_line line;
    bool current = false;
    while (!first.file && text_line_next(&text, &line)) {
        if (text_line_find(line, "(most recent call first)"))
            current = text_line_find(line, "Current thread") || text_line_begins(line, "Stack ");
        else if (current && line.n && !traceback_frame(&first, line))
            break;
    }
    snprintf(out->place, sizeof(out->place), "%s", first.text);
}

static bool take_fatal(struct crash *out, struct text_line line, const char *next)
{
    const char *at = text_line_find(line, "Fatal Python error: ");
    if (!at)
        return false;
    set_crash(out, text_line_from(line, at), (struct text_line){0});
    take_frames(out, next);
    return true;
}

/* "thread 'main' panicked at src/main.rs:4:5:" with the message behind it; "panic: text" of Go. */
static bool take_panic(struct crash *out, struct text_line line, const char *next)
{
    struct text_line more = {NULL, 0};
    const bool rust = text_line_begins(line, "thread '") && text_line_find(line, "panicked at");
    if (!rust && !text_line_begins(line, "panic: "))
        return false;
    if (rust && text_line_ends(line, ":"))
        text_line_next(&next, &more);
    set_crash(out, line, more);
    return true;
}

static bool take_part(struct crash *out, struct text_line line)
{
    const char *at = text_line_has(line, whole) ? line.at : NULL;
    for (size_t i = 0; !at && parts[i]; i++)
        at = text_line_find(line, parts[i]);
    if (at)
        set_crash(out, text_line_from(line, at), (struct text_line){0});
    return at;
}

/* The first message of a crash. */
static void find_crash(struct crash *out, const char *text)
{
    struct crash later = {0};
    struct text_line line;
    bool found = false;
    *out = (struct crash){0};
    while (!found && text_line_next(&text, &line))
        found = take_thrown(out, line, text) || take_fatal(out, line, text) || take_panic(out, line, text) ||
                take_part(out, line);
    /* The fault handler speaks after whatever brought it about, and knows the line. */
    for (bool fatal = out->place[0]; !fatal && text_line_next(&text, &line);)
        fatal = take_fatal(&later, line, text);
    if (later.place[0])
        memcpy(out->place, later.place, sizeof(out->place));
}

/* --- the shell -------------------------------------------------------------------------- */

/* "/bin/bash: line 3: MESSAGE" or "sh: 3: MESSAGE": the number, or 0. */
static int shell_line(struct text_line line, struct text_line *message)
{
    const struct text_line name = {line.at, strcspn(line.at, ": \n")};
    if (!text_line_ends(name, "sh") || line.at[name.n] != ':')
        return 0;
    struct text_line rest = text_line_trim(text_line_from(line, line.at + name.n + 1));
    if (text_line_begins(rest, "line "))
        rest = text_line_from(rest, rest.at + 5);
    char *end;
    const long n = rest.n && isdigit((unsigned char)rest.at[0]) ? strtol(rest.at, &end, 10) : 0;
    if (n < 1 || n > 100000 || *end != ':')
        return 0;
    *message = text_line_trim(text_line_from(rest, end + 1));
    return (int)n;
}

static struct text_line nth_line(const char *command, int n)
{
    struct text_line line = {NULL, 0};
    for (int i = 0; command && i < n; i++)
        if (!text_line_next(&command, &line))
            return (struct text_line){NULL, 0};
    return text_line_trim(line);
}

/* "4711 Killed      python3 x.py": one blank where the shell aligns. */
static void squeeze(char *text)
{
    char *out = text;
    for (const char *p = text; *p; p++)
        if (*p != ' ' || p[1] != ' ')
            *out++ = *p;
    *out = '\0';
}

/* The last message of a shell, "line 3: foo: command not found"; `command` is the text that it ran, or NULL. */
static void find_shell(struct crash *out, const char *text, const char *command)
{
    struct text_line line, said;
    *out = (struct crash){0};
    while (text_line_next(&text, &line)) {
        const int n = shell_line(line, &said);
        if (!n || text_line_begins(said, "warning:"))
            continue;
        const struct text_line of = nth_line(command, n);
        out->at = line.at;
        snprintf(out->text, sizeof(out->text), "line %d of the command%s%.*s%s: %.*s", n, of.n ? " (" : "",
                 (int)utf8_fit(of.at, of.n, 80), of.n ? of.at : "", of.n > 80 ? "...)" : of.n ? ")" : "",
                 (int)utf8_fit(said.at, said.n, 160), said.at);
        squeeze(out->text);
    }
}

/* A command that failed without a message: bash printed its line (agent/os/shell_trap.h). */
static bool take_silent(struct failure_reason *out, const char *text, const char *command)
{
    const char *at = NULL, *code;
    for (const char *p = text; (p = strstr(p, SHELL_TRAP_HEAD)); p += strlen(SHELL_TRAP_HEAD))
        at = p + strlen(SHELL_TRAP_HEAD);
    if (!at || !(code = strstr(at, SHELL_TRAP_SAYS)))
        return false;
    const struct text_line of = nth_line(command, atoi(at));
    const bool pipe = atoi(code + strlen(SHELL_TRAP_SAYS)) == 128 + SIGPIPE;
    out->kind = FAILURE_SHELL;
    snprintf(out->text, sizeof(out->text), "line %d of the command%s%.*s%s %s", atoi(at), of.n ? " (" : "",
             (int)utf8_fit(of.at, of.n, 80), of.n ? of.at : "", of.n > 80 ? "...)" : of.n ? ")" : "",
             pipe ? FAILURE_PIPE : "failed without a message");
    return true;
}

/* --- a line of trouble ------------------------------------------------------------------ */

static const char *const words[] = {
    "abort", "aborted", "aborting", "bad", "broken", "can't", "cannot", "corrupt", "corrupted", "couldn't", "crash",
    "crashed", "damaged", "denied", "diverged", "doesn't", "empty", "error", "exceeded", "exceeds", "exception",
    "exhausted", "expected", "failed", "failure", "fails", "fatal", "forbidden", "illegal", "incompatible",
    "insufficient", "invalid", "killed", "mismatch", "missing", "must", "nan", "need", "needs", "panic", "refused",
    "require", "required", "requires", "segfault", "terminated", "timeout", "unable", "undefined", "unexpected",
    "unknown", "unrecognized", "unreachable", "unsupported", "wrong", "giving up", "gave up", "not found", "no such",
    "not enough", "does not", "is not", "are not", "not supported", "not a", "not allowed", "no module named",
    "no rule to", "could not", "did not", "out of", "timed out", "too few", "too large", "too many", "too small",
    "too long", "stopped early", NULL,
};

/* Heads of lines that are errors whatever they say. */
static const char *const marks[] = {"error:", "error ", "error]", "fatal:", "fatal ", "fatal]", "critical:",
                                    "critical ", "critical]", "err:", "usage error", NULL};

/* Launchers, loggers and hints: what they print after a program has failed. */
static const char *const echoes[] = {
    "HYDRA_FULL_ERROR", "wandb:", "srun: error:", "slurmstepd: ", "mpirun", "mpiexec", "prterun", "MPI_ABORT",
    "MPI_Abort", "] Error ", "ChildFailedError", "failed (exitcode:", "Sending process ", "closing signal",
    "exits with return code", "sigkill_handler", "Exited with exit code", "returned non-zero exit status",
    "error_file:", "traceback :", "exitcode  :", "To enable traceback see", "Root Cause (first", "FAILED",
    "Other Failures", "<NO_OTHER_FAILURES>", "npm ERR!", "ELIFECYCLE", "Primary job  terminated",
    "a non-zero exit code", "core dumped", "Error executing job with overrides", "exited on signal", NULL,
};

static bool is_echo(struct text_line line)
{
    return text_line_has(line, echoes) || line.n < 3 || strspn(line.at, "=-*#_~ ") >= line.n;
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
    bool trouble = strncmp(text, "no ", 3) == 0 || strncmp(text, "not ", 4) == 0; /* "no space left in scratch" */
    for (size_t i = 0; !trouble && words[i]; i++)
        trouble = has_word(text, words[i]);
    return trouble && !strstr(text, "warn") && !printed_progress_told(line);
}

/* "error: no data", "2026-01-01 10:00:00 [ERROR] x", "train.py: error: y" */
static bool is_marked(struct text_line line)
{
    char text[512];
    const char *end = text_line_find(line, ": ");
    const struct text_line name = end ? text_line_before(line, end) : line;
    if (name.n > 5 && text_line_ends(name, "Error") && !text_line_find(name, " "))
        return true; /* an exception without its traceback */
    lower(text, sizeof(text), line);
    for (size_t i = 0; marks[i]; i++) {
        const char *at = strstr(text, marks[i]);
        if (!at || (at != text && (at - text >= 60 || !strchr("[: -|", at[-1]))))
            continue;
        const char *said = line.at + (at - text);
        const bool upper = isupper((unsigned char)said[0]) && isupper((unsigned char)said[1]);
        if (at == text || upper || marks[i][strlen(marks[i]) - 1] == ':')
            return !printed_progress_told(line);
    }
    return false;
}

/* The last line marked as an error ("error: ...", "[ERROR] ..."), else one of the last three that has a word of trouble
 * ("cannot", "missing", ...) and is not progress.  n == 0: none; the program printed no reason. */
static struct text_line find_trouble(const char *text)
{
    struct text_line last[MARKED_LINES], line;
    size_t n = 0;
    while (text_line_next(&text, &line)) {
        line = text_line_trim(line);
        n = printed_progress_is_step(line) ? 0 : n; /* what stands before it has not ended the program */
        if (line.n && !is_echo(line))
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

/* --- in words --------------------------------------------------------------------------- */

static int fit(const char *text, size_t most)
{
    return (int)utf8_fit(text, strlen(text), most);
}

static const char *after_place(const struct traceback *t, char *out, size_t size)
{
    snprintf(out, size, "%s%s", t->place.text, t->place.text[0] ? ": " : "");
    return out;
}

/* "ValueError: x", or the name alone where the other one has the message already. */
static void shorten(char *out, size_t size, const struct traceback *root, const struct traceback *last)
{
    const size_t name = traceback_name(root);
    const char *message = root->text + name + strspn(root->text + name, ": ");
    const bool told = *message && strstr(last->text, message);
    snprintf(out, size, "%.*s", told ? (int)name : fit(root->text, ROOT_SHOWN), root->text);
}

static void say_chain(struct failure_reason *out, const struct choice *c)
{
    static const char *const links[] = {[TRACEBACK_DURING] = "while handling ", [TRACEBACK_CAUSED] = "caused by ",
                                        [TRACEBACK_ORIGINAL] = "", [TRACEBACK_MEMBER] = "first: "};
    char at[SOURCE_PLACE + 2], from[SOURCE_PLACE + 2], root[ROOT_SHOWN + 1];
    shorten(root, sizeof(root), c->root, c->last);
    snprintf(out->text, sizeof(out->text), "%s%.*s (%s%s%s)", after_place(c->last, at, sizeof(at)),
             fit(c->last->text, LAST_SHOWN - 60), c->last->text, links[c->link],
             after_place(c->root, from, sizeof(from)), root);
}

/* The text of a device-side assertion is on a line of its own, which the CUDA kernel printed. */
static void add_assertion(struct failure_reason *out, const char *text)
{
    const char *at = strstr(out->last, "device-side assert") ? strstr(text, "Assertion `") : NULL;
    if (at && !strstr(out->text, "Assertion `"))
        text_append(out->text, sizeof(out->text), " (%.*s)", (int)strcspn(at, "\n"), at);
}

/* The interpreter, where a module is missing: agent/ranks/interpreter.h leaves it in the output. */
static void add_interpreter(struct failure_reason *out, const char *text)
{
    const char *at = strstr(out->last, "ModuleNotFoundError") ? strstr(text, FAILURE_INTERPRETER) : NULL;
    if (at && (at = at + strlen(FAILURE_INTERPRETER)))
        text_append(out->text, sizeof(out->text), " (interpreter %.*s)", (int)strcspn(at, "\n"), at);
}

static bool is_passing(const char *text)
{
    const struct text_line said = {text, strlen(text)};
    return text_line_has(said, passing) && !text_line_has(said, lasting);
}

static void take_chain(struct failure_reason *out, const struct choice *c, const char *text)
{
    char at[SOURCE_PLACE + 2];
    const struct traceback *t = c->link == TRACEBACK_ORIGINAL ? c->root : c->last;
    const bool same = c->root == c->last || strcmp(c->root->text, c->last->text) == 0;
    out->kind = FAILURE_EXCEPTION;
    snprintf(out->last, sizeof(out->last), "%s", t->text);
    snprintf(out->root, sizeof(out->root), "%s", c->root->text);
    t = same ? c->root : t;
    snprintf(out->place, sizeof(out->place), "%s", t->place.text);
    out->mistake = traceback_is(t, mistakes);
    out->passing = is_passing(out->last) || is_passing(out->root);
    if (same || c->link == TRACEBACK_ORIGINAL)
        snprintf(out->text, sizeof(out->text), "%s%.*s", after_place(t, at, sizeof(at)),
                 fit(t->text, LAST_SHOWN), t->text);
    else
        say_chain(out, c);
    add_assertion(out, text);
    add_interpreter(out, text);
}

static bool has_passing(const char *text)
{
    const struct text_line said = {text, strlen(text)};
    return is_passing(text) || text_line_has(said, passing_words);
}

/* What torchrun's table says of the rank that failed first, where that rank has printed nothing. */
static bool take_table(struct failure_reason *out, const char *text)
{
    const char *rank = first_failure(text), *code = rank ? strstr(rank, "\n  exitcode ") : NULL;
    const char *said = rank ? strstr(rank, "\n  traceback : Signal ") : NULL;
    if (!rank || !code || !(rank = strchr(rank, ':')) || !(code = strchr(code, ':')))
        return false;
    if (said && (said = strstr(said, "Signal ")))
        snprintf(out->text, sizeof(out->text), "rank %d of torchrun: %.*s", atoi(rank + 1), (int)strcspn(said, "\n"),
                 said);
    else
        snprintf(out->text, sizeof(out->text), "rank %d of torchrun exited with code %d and printed no reason",
                 atoi(rank + 1), atoi(code + 1));
    out->kind = FAILURE_LAUNCHER;
    return true;
}

static void take_text(struct failure_reason *out, enum failure_kind kind, const char *text, size_t n)
{
    out->kind = kind;
    snprintf(out->text, sizeof(out->text), "%.*s", (int)n, n ? text : "");
}

void failure_reason_read(struct failure_reason *out, const char *text, const char *command, bool signalled)
{
    struct traceback all[TRACEBACKS];
    struct crash crash, shell;
    *out = (struct failure_reason){0};
    const int n = signalled ? 0 : traceback_find(all, text);
    const struct choice choice = make_choice(all, n, text);
    find_crash(&crash, text);
    find_shell(&shell, text, command);
    if (shell.text[0] && (!choice.last || shell.at > choice.last->end)) {
        take_text(out, FAILURE_SHELL, shell.text, strlen(shell.text));
    } else if (choice.last && !(choice.weak && (crash.text[0] || !choice.last->place.text[0]))) {
        take_chain(out, &choice, text);
    } else if (crash.text[0]) {
        take_text(out, FAILURE_CRASH, crash.text, strlen(crash.text));
    } else if (!take_table(out, text)) {
        const struct text_line line = find_trouble(text);
        if (line.n || !take_silent(out, text, command))
            take_text(out, line.n ? FAILURE_LINE : FAILURE_SILENT, line.at, utf8_fit(line.at, line.n, LINE_SHOWN));
    }
    if (out->kind != FAILURE_EXCEPTION)
        out->passing = has_passing(text);
    if (!out->place[0])
        snprintf(out->place, sizeof(out->place), "%s", crash.place);
    out->interrupted = choice.last && choice.weak;
}
