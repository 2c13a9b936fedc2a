/* SPDX-License-Identifier: Apache-2.0 */
/* command_text.c - see command_text.h
 *
 * Pure: no clock, no I/O.
 */
#include "controller/submit/command_text.h"

#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/jobspec.h"
#include "engine/base/err.h"
#include "engine/base/utf8.h"

/* ---- the shell ---- */

static bool is_plain(const char *text)
{
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_@%+=:,./-", *p))
            return false;
    return text[0] != '\0';
}

/* The buffers are as long as the longest result. */
static void put(char **at, const char *text, size_t n)
{
    memcpy(*at, text, n);
    *at += n;
    **at = '\0';
}

static void put_text(char **at, const char *text)
{
    put(at, text, strlen(text));
}

static void quote(char **at, const char *text)
{
    if (is_plain(text)) {
        put_text(at, text);
        return;
    }
    put_text(at, "'");
    for (; *text; text++)
        if (*text == '\'')
            put_text(at, "'\\''");
        else
            put(at, text, 1);
    put_text(at, "'");
}

/* The length of NAME= in NAME=VALUE; 0: no assignment. */
static size_t assigned(const char *word)
{
    size_t n = 0;
    while (isalpha((unsigned char)word[n]) || word[n] == '_' || (n > 0 && isdigit((unsigned char)word[n])))
        n++;
    return n > 0 && word[n] == '=' ? n + 1 : 0;
}

static int assignments(const char *const *words, int count)
{
    int n = 0;
    while (n < count && assigned(words[n]))
        n++;
    return n;
}

static int check(const char *const *words, int count, struct err *err)
{
    for (int i = 0; i < count; i++) {
        if (!utf8_valid(words[i], strlen(words[i])))
            return err_set(err, ERR_USAGE, "word %d of the command is not valid UTF-8, as a job's text must be",
                           i + 1);
    }
    return 0;
}

static void write_shell(char **at, const char *const *words, int count)
{
    const int leading = assignments(words, count);
    for (int i = 0; i < count; i++) {
        const size_t name = i < leading ? assigned(words[i]) : 0;
        put_text(at, i ? " " : "");
        put(at, words[i], name);
        if (!name || words[i][name])
            quote(at, words[i] + name);
    }
}

char *command_text_shell(const char *const *words, int count, struct err *err)
{
    size_t size = 1;
    if (check(words, count, err) < 0)
        return NULL;
    for (int i = 0; i < count; i++)
        size += 4 * strlen(words[i]) + sizeof(" ''");
    char *text = malloc(size), *at = text;
    if (!text)
        err_set(err, ERR_MEMORY, "out of memory for a command");
    else if (count == 1)
        put_text(&at, words[0]);
    else
        write_shell(&at, words, count);
    return text;
}

/* ---- the spec ---- */

/* One character of valid UTF-8. */
static unsigned decode(const unsigned char **p)
{
    const unsigned char *s = *p;
    const int more = s[0] < 0x80 ? 0 : s[0] < 0xe0 ? 1 : s[0] < 0xf0 ? 2 : 3;
    unsigned c = more == 0 ? s[0] : s[0] & (0x3fu >> more);
    for (int i = 1; i <= more; i++)
        c = c << 6 | (s[i] & 0x3fu);
    *p = s + more + 1;
    return c;
}

/* May it stand in a quoted text of YAML as it is?  Line breaks would be folded. */
static bool stands(unsigned c)
{
    if (c < 0x7f)
        return c >= 0x20 && c != '"' && c != '\\';
    return c >= 0xa0 && c != 0x2028 && c != 0x2029 && c != 0xfeff && c < 0xfffe;
}

static void write_text(char **at, const char *text)
{
    put_text(at, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const char *from = (const char *)p;
        const unsigned c = decode(&p);
        if (c == '\n')
            put_text(at, "\\n");
        else if (stands(c) || c > 0xffff)
            put(at, from, (size_t)((const char *)p - from));
        else if (c == '"' || c == '\\')
            *at += snprintf(*at, 3, "\\%c", (int)c);
        else
            *at += snprintf(*at, 7, "\\u%04x", c);
    }
    put_text(at, "\"\n");
}

static void write_number(char **at, const char *key, int64_t value)
{
    if (value >= 0)
        *at += snprintf(*at, 48, "  %s: %lld\n", key, (long long)value);
    else
        *at += snprintf(*at, 48, "  %s: %s\n", key, value == COMMAND_ONE ? "one" : "auto");
}

static void write_spec(char **at, const struct command_wish *wish, const char *name, const char *shell)
{
    put_text(at, "name: ");
    write_text(at, name);
    put_text(at, "resources:\n");
    write_number(at, "ranks", wish->ranks);
    write_number(at, "gpus", wish->gpus);
    put_text(at, "run: ");
    write_text(at, shell);
}

/* A name is the user's text: the checks of a spec say what is wrong with it. */
static const char *name_of(char made[JOB_NAME_MAX + 1], const struct command_wish *wish, const char *const *words,
                           int count, struct err *err)
{
    const char *const given[] = {wish->name};
    command_text_name(made, JOB_NAME_MAX + 1, words, count);
    if (!wish->name)
        return made;
    if (check(given, 1, NULL) == 0)
        return wish->name;
    err_set(err, ERR_USAGE, "the job's name is not valid UTF-8");
    return NULL;
}

char *command_text_spec(const struct command_wish *wish, const char *const *words, int count, struct err *err)
{
    char made[JOB_NAME_MAX + 1], *text = NULL, *at;
    const char *name = name_of(made, wish, words, count, err);
    char *shell = name ? command_text_shell(words, count, err) : NULL;
    if (shell && !(at = text = malloc(6 * strlen(name) + 6 * strlen(shell) + 200)))
        err_set(err, ERR_MEMORY, "out of memory for a command");
    if (text)
        write_spec(&at, wish, name, shell);
    free(shell);
    return text;
}

/* ---- the name ---- */

static const char *base_of(const char *word)
{
    const char *slash = strrchr(word, '/');
    return slash && slash[1] ? slash + 1 : word;
}

/* Runs what is named by a word after it. */
static bool is_runner(const char *word)
{
    static const char *const names[] = {"sh", "bash", "dash", "zsh", "python", "torchrun", "accelerate", "launch",
                                        "deepspeed", "uv", "run", "env", "nice", "time", "exec", "julia", "perl",
                                        "node", "Rscript", "ruby"};
    const char *base = base_of(word);
    const size_t n = strcspn(base, "0123456789.");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == n && strncmp(names[i], base, n) == 0 && !strpbrk(base + n, "_-"))
            return true;
    return false;
}

/* The first word after runners and their options, of which the values are numbers; else the first program. */
static const char *named(const char *const *words, int count)
{
    const int first = assignments(words, count);
    bool runner = false;
    for (int i = first; i < count; i++) {
        if (runner && (words[i][0] == '-' || isdigit((unsigned char)words[i][0])))
            continue;
        if (!is_runner(words[i]))
            return words[i];
        runner = true;
    }
    return first < count ? words[first] : "job";
}

void command_text_name(char *out, size_t size, const char *const *words, int count)
{
    const char *word = named(words, count), *from = word;
    from += strspn(from, " \t\n");
    const int n = (int)strcspn(from, " \t\n;|&<>()");
    char first[JOB_NAME_MAX * 4];
    snprintf(first, sizeof(first), "%.*s", n, from);
    snprintf(out, size, "%.40s", base_of(first));
    char *dot = strrchr(out, '.');
    if (dot && dot != out)
        *dot = '\0';
    for (char *p = out; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
            *p = '-';
    if (!isalpha((unsigned char)out[0]) || strcmp(out, "last") == 0 || strcmp(out, "all") == 0)
        snprintf(out, size, "job");
}
