/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - option rows, shared by parsing, help and completion
 *
 * Options and arguments may be mixed, except before a command line (`run`); `--x=v`, `--x v`, `-xv`, `-x v` and `--`
 * have their usual meaning.  Texts point into the caller's argv.
 */
#ifndef CONTROLLER_CLI_OPTIONS_H
#define CONTROLLER_CLI_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct err;

enum option_type {
    OPTION_FLAG,
    OPTION_TEXT,
    OPTION_LIST,       /* may be repeated */
    OPTION_COUNT,      /* a whole number, not negative */
    OPTION_COUNT_AUTO, /* the same, or auto, which counts as not given */
    OPTION_DURATION    /* as in a spec; a bare number is in seconds */
};

struct option_row {
    const char      *name;      /* without dashes; NULL ends the rows */
    char             letter;    /* 0: none */
    enum option_type type;
    const char      *value;     /* placeholder of the value in help: "N", "TEXT" */
    const char      *help;
};

#define OPTION_JSON {"json", 0, OPTION_FLAG, NULL, "print one JSON value (JOBCTL_OUTPUT=json)"}
#define OPTION_QUIET {"quiet", 'q', OPTION_FLAG, NULL, "print ids only"}

enum { OPTIONS_MAX = 16, OPTIONS_LIST = 64 };

struct options {
    const struct option_row *rows;
    bool        given[OPTIONS_MAX];
    const char *text[OPTIONS_MAX];
    double      number[OPTIONS_MAX];
    const char *list[OPTIONS_LIST];     /* a command has at most one OPTION_LIST */
    int         nlist;
    char      **args;                   /* points into argv, which is permuted */
    int         nargs;
    bool        help;                   /* -h or --help was given */
};

/* Whether options after the first argument belong to this command, or to the command line that the arguments form. */
enum options_order { OPTIONS_MIXED, OPTIONS_FIRST };

/* `argv` starts at the first word after the command. */
int options_parse(struct options *o, const struct option_row *rows, enum options_order order, int argc, char **argv,
                  struct err *err);

/* Look up an option by name; the name must be in the rows. */
bool options_has(const struct options *o, const char *name);
const char *options_text(const struct options *o, const char *name);     /* NULL: not given */
int64_t options_count(const struct options *o, const char *name, int64_t otherwise);
double options_seconds(const struct options *o, const char *name, double otherwise);

#endif
