/* SPDX-License-Identifier: Apache-2.0 */
/* shell_text.c - see shell_text.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/os/shell_text.h"

#include <stdio.h>
#include <string.h>

const char *shell_text_skip(const char *p, const char *begin, bool *plain)
{
    *plain = false;
    if (*p == '\\' && p[1])
        return p + 2;
    if (*p == '#' && (p == begin || strchr(" \t\n;", p[-1])))
        return p + strcspn(p, "\n");
    if (*p == '\'' || *p == '"') {
        const char quote = *p++;
        while (*p && *p != quote)
            p += quote == '"' && *p == '\\' && p[1] ? 2 : 1;
        return *p ? p + 1 : p;
    }
    *plain = true;
    return p + 1;
}

bool shell_text_has_background(const char *text)
{
    bool plain;
    for (const char *p = text ? text : "", *at; *p;) {
        at = p;
        p = shell_text_skip(p, text, &plain);
        if (!plain || *at != '&')
            continue;
        if (*p == '&')
            p++;
        else if (*p != '>' && (at == text || !strchr("<>", at[-1])))
            return true;
    }
    return false;
}

/* The word after `>`, unless the shell expands it, or it is a descriptor. */
static void take_file(char *out, size_t size, const char *at)
{
    at += strspn(at, ">|");
    at += strspn(at, " \t");
    const size_t n = strcspn(at, " \t\n;&|<>()");
    char word[256];
    if (n == 0 || n >= sizeof(word) || n >= size || *at == '&')
        return;
    snprintf(word, sizeof(word), "%.*s", (int)n, at);
    if (!strpbrk(word, "$`*?[]{}~'\"\\") && strncmp(word, "/dev/", 5) != 0)
        snprintf(out, size, "%s", word);
}

void shell_text_output(char *out, size_t size, const char *text)
{
    bool plain;
    out[0] = '\0';
    for (const char *p = text ? text : "", *at; *p;) {
        at = p;
        p = shell_text_skip(p, text, &plain);
        if (plain && *at == '>' && (at == text || at[-1] != '>'))
            take_file(out, size, at);
    }
}
