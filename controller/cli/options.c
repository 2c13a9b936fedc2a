/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h */
#include "controller/cli/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/spec/spec_suggest.h"
#include "controller/spec/spec_units.h"
#include "engine/base/err.h"

static int find_name(const struct option_row *rows, const char *name, size_t size)
{
    for (int i = 0; rows[i].name; i++)
        if (strlen(rows[i].name) == size && memcmp(rows[i].name, name, size) == 0)
            return i;
    return -1;
}

static int find_letter(const struct option_row *rows, char letter)
{
    for (int i = 0; rows[i].name; i++)
        if (rows[i].letter == letter)
            return i;
    return -1;
}

static int unknown(const struct option_row *rows, const char *name, size_t size, struct err *err)
{
    char word[64], near[64] = "";
    int best = 3;
    snprintf(word, sizeof(word), "%.*s", (int)size, name);
    for (int i = 0; rows[i].name; i++) {
        int d = spec_distance(rows[i].name, word);
        if (d < best) {
            best = d;
            snprintf(near, sizeof(near), "; did you mean --%s?", rows[i].name);
        }
    }
    return err_set(err, ERR_USAGE, "unknown option --%s%s", word, near[0] ? near : "; --help lists the options");
}

/* Parses a value by its row's type; `value` is NULL if none was given. */
static int take(struct options *o, int i, const char *value, struct err *err)
{
    const struct option_row *row = &o->rows[i];
    char *end;
    if (row->type != OPTION_FLAG && !value)
        return err_set(err, ERR_USAGE, "--%s needs a value: --%s %s", row->name, row->name, row->value);
    if (row->type == OPTION_LIST) {
        if (o->nlist == OPTIONS_LIST)
            return err_set(err, ERR_USAGE, "--%s is given more than %d times", row->name, OPTIONS_LIST);
        o->list[o->nlist++] = value;
    }
    if (row->type == OPTION_COUNT_AUTO && strcmp(value, "auto") == 0) {
        o->text[i] = value;
        return 0;
    }
    if (row->type == OPTION_COUNT || row->type == OPTION_COUNT_AUTO) {
        errno = 0;
        long long n = strtoll(value, &end, 10);
        if (end == value || *end || errno || n < 0 || n > INT64_C(1000000000000))
            return err_set(err, ERR_USAGE, "--%s: expected a whole number%s, not \"%.40s\"", row->name,
                           row->type == OPTION_COUNT_AUTO ? " or auto" : "", value);
        o->number[i] = (double)n;
    }
    if (row->type == OPTION_DURATION) {
        double n = strtod(value, &end);
        if (end == value || *end || !(n >= 0)) {
            if (spec_duration_parse(&n, value, err) < 0)
                return err_prefix(err, "--%s: ", row->name);
        }
        o->number[i] = n;
    }
    o->given[i] = true;
    o->text[i] = value;
    return 0;
}

/* One "--name" or "--name=value"; *used counts a value taken from the next word. */
static int take_long(struct options *o, const char *word, const char *next, int *used, struct err *err)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t size = equals ? (size_t)(equals - name) : strlen(name);
    if (size == 4 && memcmp(name, "help", 4) == 0) {
        o->help = true;
        return 0;
    }
    int i = find_name(o->rows, name, size);
    if (i < 0)
        return unknown(o->rows, name, size, err);
    if (o->rows[i].type == OPTION_FLAG) {
        if (equals)
            return err_set(err, ERR_USAGE, "--%s takes no value", o->rows[i].name);
        return take(o, i, NULL, err);
    }
    if (equals)
        return take(o, i, equals + 1, err);
    *used = next != NULL;
    return take(o, i, next, err);
}

/* "-f", "-fq", "-n5" or "-n 5". */
static int take_letters(struct options *o, const char *word, const char *next, int *used, struct err *err)
{
    for (const char *p = word + 1; *p; p++) {
        if (*p == 'h') {
            o->help = true;
            continue;
        }
        int i = find_letter(o->rows, *p);
        if (i < 0)
            return err_set(err, ERR_USAGE, "unknown option -%c; --help lists the options", *p);
        if (o->rows[i].type == OPTION_FLAG) {
            if (take(o, i, NULL, err) < 0)
                return -1;
            continue;
        }
        if (p[1])
            return take(o, i, p + 1, err);
        *used = next != NULL;
        return take(o, i, next, err);
    }
    return 0;
}

static void take_rest(struct options *o, int from, int argc, char **argv)
{
    while (from < argc)
        o->args[o->nargs++] = argv[from++];
}

int options_parse(struct options *o, const struct option_row *rows, enum options_order order, int argc, char **argv,
                  struct err *err)
{
    memset(o, 0, sizeof(*o));
    o->rows = rows;
    o->args = argv;
    for (int i = 0; i < argc; i++) {
        char *word = argv[i];
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        int used = 0;
        const bool argument = word[0] != '-' || !word[1], end = strcmp(word, "--") == 0;
        if (end || (argument && order == OPTIONS_FIRST)) {
            take_rest(o, i + end, argc, argv);
            break;
        }
        if (argument)
            o->args[o->nargs++] = word;
        else if ((word[1] == '-' ? take_long : take_letters)(o, word, next, &used, err) < 0)
            return -1;
        i += used;
    }
    return 0;
}

static int must_find(const struct options *o, const char *name)
{
    int i = find_name(o->rows, name, strlen(name));
    if (i < 0)
        abort();
    return i;
}

bool options_has(const struct options *o, const char *name)
{
    return o->given[must_find(o, name)];
}

const char *options_text(const struct options *o, const char *name)
{
    return o->text[must_find(o, name)];
}

int64_t options_count(const struct options *o, const char *name, int64_t otherwise)
{
    int i = must_find(o, name);
    return o->given[i] ? (int64_t)o->number[i] : otherwise;
}

double options_seconds(const struct options *o, const char *name, double otherwise)
{
    int i = must_find(o, name);
    return o->given[i] ? o->number[i] : otherwise;
}
