/* SPDX-License-Identifier: Apache-2.0 */
/* shell_trap.c - see shell_trap.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/os/shell_trap.h"

#include <stdio.h>
#include <string.h>

#include "agent/os/shell_text.h"

#define LINE SHELL_TRAP_HEAD "$LINENO" SHELL_TRAP_SAYS "$? ---"
#define SET "set -E; trap 'case $- in *e*) echo \"" LINE "\" >&2 || :;; esac' ERR; "
#define UNSET "trap - ERR; "

/* The lines of a text that begin a command. */
struct scan {
    int         lines;
    const char *last; /* the last of them; NULL: it may continue the one before */
    bool        here; /* a here-document: what follows is not commands */
};

/* Does the text up to here end in the middle of a command? */
static bool continues(const char *begin, const char *end)
{
    while (end > begin && strchr(" \t\n", end[-1]))
        end--;
    return end > begin && strchr("\\|&({", end[-1]);
}

static struct scan scan_lines(const char *text)
{
    struct scan s = {0};
    bool plain, start = true;
    for (const char *p = text; *p;) {
        const char *at = p;
        p = shell_text_skip(p, text, &plain);
        s.here = s.here || (plain && at[0] == '<' && at[1] == '<');
        if (at[0] == '\n' && plain)
            start = true;
        else if (start && !strchr(" \t#", *at)) {
            s.lines++;
            s.last = (at == text || at[-1] == '\n') && !continues(text, at) ? at : NULL;
            start = false;
        }
    }
    return s;
}

/* Without a compound command, of which it could be the end. */
static bool is_simple(const char *line)
{
    static const char *const words[] = {"done", "fi", "esac", "then", "else", "elif", "do", "in", "if", "for", "while",
                                        "until", "case", "select", "function", "trap"};
    if (strpbrk(line, "(){};&|\\"))
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        const size_t n = strlen(words[i]);
        if (strncmp(line, words[i], n) == 0 && (!line[n] || strchr(" \t\n", line[n])))
            return false;
    }
    return true;
}

bool shell_trap(char *out, size_t size, const char *text)
{
    const struct scan s = scan_lines(text);
    if (s.lines < 2 || s.here)
        return false;
    const size_t before = s.last && is_simple(s.last) ? (size_t)(s.last - text) : strlen(text);
    const int n = snprintf(out, size, "%s%.*s%s%s", SET, (int)before, text, text[before] ? UNSET : "", text + before);
    return n > 0 && (size_t)n < size;
}
