/* SPDX-License-Identifier: Apache-2.0 */
/* run_command.c - see run_command.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/spec/run_command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define BLANKS " \t"

enum { WORD = 128 };

/* ---- the first program ---- */

/* Of bash, dash and other shells: none is looked up in PATH. */
static const char *const builtins[] = {
    ".",        "[",        "[[",      "!",        "{",       "}",       "alias",  "autoload", "bg",      "bind",
    "break",    "builtin",  "caller",  "case",     "cd",      "chdir",   "command", "compgen", "complete", "compopt",
    "continue", "coproc",   "declare", "dirs",     "disown",  "do",      "done",   "echo",     "elif",    "else",
    "enable",   "esac",     "eval",    "exec",     "exit",    "export",  "false",  "fc",       "fg",      "fi",
    "for",      "function", "getopts", "hash",     "help",    "history", "if",     "in",       "jobs",    "kill",
    "let",      "local",    "logout",  "mapfile",  "module",  "ml",      "newgrp", "popd",     "print",   "printf",
    "pushd",    "pwd",      "read",    "readarray", "readonly", "return", "select", "set",     "shift",   "shopt",
    "source",   "suspend",  "test",    "then",     "time",    "times",   "trap",   "true",     "type",    "typeset",
    "ulimit",   "umask",    "unalias", "unset",    "until",   "wait",    "whence", "while",
};

static bool is_builtin(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++)
        if (strcmp(builtins[i], word) == 0)
            return true;
    return false;
}

/* After the quote or backslash at *p; NULL: the text ends within it. */
static const char *skip_quoted(const char *p)
{
    if (*p == '\\')
        return p[1] ? p + 2 : NULL;
    const char quote = *p++;
    while (*p && *p != quote)
        p += *p == '\\' && quote == '"' && p[1] ? 2 : 1;
    return *p ? p + 1 : NULL;
}

/* One simple command or a pipeline: all of it runs, and the end of each member counts. */
static bool is_simple(const char *p)
{
    bool expects = false;       /* a command, after a '|' */
    while (*p) {
        if (strchr("\\'\"", *p)) {
            if (!(p = skip_quoted(p)))
                return false;
            expects = false;
            continue;
        }
        const bool joins = *p == '&' && (p[1] == '>' || p[1] == '<'), pipe = *p == '|';
        if (strchr(";()`{}\n\r", *p) || (*p == '&' && !joins) || (pipe && (expects || p[1] == '|')))
            return false;
        expects = pipe || (expects && strchr(BLANKS, *p));
        p += (*p == '>' || *p == '<') && p[1] == '&' ? 2 : 1;
    }
    return !expects;
}

/* NAME=value without an expansion, which does not change where programs are found. */
static bool is_harmless_assignment(const char *word)
{
    const size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && word[n] == '=' && !isdigit((unsigned char)word[0]) && strncmp(word, "PATH=", 5) != 0 &&
           strncmp(word, "BASH_", 5) != 0 && word[strcspn(word, "$`'\"\\*?[<>|&")] == '\0';
}

static bool is_plain(const char *word)
{
    for (const char *p = word; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_-.+", *p))
            return false;
    return word[0] && word[0] != '-';
}

static const char *take_word(char word[WORD], const char *text)
{
    text += strspn(text, BLANKS);
    const size_t n = strcspn(text, BLANKS);
    snprintf(word, WORD, "%.*s", (int)(n < WORD ? n : WORD - 1), text);
    return text + n;
}

/* Without blanks and line ends around it; NULL: it does not fit. */
static const char *trim(char *out, size_t size, const char *text)
{
    text += strspn(text, " \t\n\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\n\r", text[n - 1]))
        n--;
    if (n >= size)
        return NULL;
    memcpy(out, text, n);
    out[n] = '\0';
    return out;
}

bool run_command_program(char *out, size_t size, const char *text)
{
    char line[4096], word[WORD];
    const char *rest = trim(line, sizeof(line), text);
    out[0] = '\0';
    if (!rest || !is_simple(rest))
        return false;
    do
        rest = take_word(word, rest);
    while (is_harmless_assignment(word));
    if (strlen(word) >= WORD - 1 || strlen(word) >= size || !is_plain(word) || is_builtin(word))
        return false;
    snprintf(out, size, "%s", word);
    return true;
}

/* ---- launchers ---- */

/* A word, or the end of a line: "\n". Line ends after a backslash are blanks; comments are skipped. */
static const char *next_word(char word[WORD], const char *p)
{
    word[0] = '\0';
    for (;; p += p[0] == '\\' ? 2 : 1)
        if (!*p || !(strchr(BLANKS, *p) || (p[0] == '\\' && p[1] == '\n')))
            break;
    if (*p == '#')
        p += strcspn(p, "\n");
    if (!*p)
        return NULL;
    size_t n = strchr("\n;&|()", *p) ? 1 : strcspn(p, " \t\n;&|()");
    snprintf(word, WORD, "%s%.*s", "", (int)(n < WORD ? n : WORD - 1), *p == '\n' || strchr(";&|()", *p) ? "\n" : p);
    return p + n;
}

static const char *base_of(const char *word)
{
    const char *slash = strrchr(word, '/');
    return slash ? slash + 1 : word;
}

/* How the words so far name a launcher; NULL: they do not. */
static const char *launcher_of(const char *before, const char *word)
{
    if (strcmp(base_of(word), "torchrun") == 0)
        return "torchrun";
    if (strcmp(before, "-m") == 0 && strncmp(word, "torch.distributed.", 18) == 0)
        return word;
    return strcmp(base_of(before), "accelerate") == 0 && strcmp(word, "launch") == 0 ? "accelerate launch" : NULL;
}

/* The value of an option that says how many processes: after '=', "" if it is the next word; NULL: another option. */
static const char *count_of(const char *word)
{
    static const char *const options[] = {"--nproc_per_node", "--nproc-per-node", "--num_processes",
                                          "--num-processes"};
    for (size_t i = 0; i < ARRAY_LEN(options); i++) {
        const size_t n = strlen(options[i]);
        if (strncmp(word, options[i], n) == 0 && (word[n] == '=' || word[n] == '\0'))
            return word[n] ? word + n + 1 : "";
    }
    return NULL;
}

static int64_t number_of(const char *value)
{
    if (strcmp(value, "auto") == 0 || strcmp(value, "gpu") == 0)
        return -1;
    return value[0] && value[strspn(value, "0123456789")] == '\0' ? strtoll(value, NULL, 10) : 0;
}

int64_t run_command_launcher(char *name, size_t size, const char *text)
{
    char word[WORD], before[WORD] = "";
    name[0] = '\0';
    while ((text = next_word(word, text))) {
        const char *launcher = launcher_of(before, word), *count = name[0] ? count_of(word) : NULL;
        if (launcher)
            snprintf(name, size, "%s", launcher);
        if (word[0] == '\n')
            name[0] = '\0';
        if (count && !count[0] && !(text = next_word(word, text)))
            break;
        if (count)
            return number_of(count[0] ? count : word);
        snprintf(before, sizeof(before), "%s", word);
    }
    name[0] = '\0';
    return 0;
}
