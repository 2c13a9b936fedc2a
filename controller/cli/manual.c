/* SPDX-License-Identifier: Apache-2.0 */
/* manual.c - see manual.h; `jobctl help man | man -l -` shows it */
#include "controller/cli/manual.h"

#include <string.h>

#include "controller/cli/command.h"
#include "controller/spec/spec_rows.h"

/* Escapes text for roff: a leading dot or a backslash would be a request. */
static void text(FILE *f, const char *s)
{
    if (*s == '.' || *s == '\'')
        fputs("\\&", f);
    for (; *s; s++)
        if (*s == '\\')
            fputs("\\e", f);
        else if (*s == '-')
            fputs("\\-", f);
        else
            fputc(*s, f);
}

static void print_command(FILE *f, const struct command *c)
{
    char usage[256];
    command_usage(usage, sizeof(usage), c);
    fputs(".TP\n.B ", f);
    text(f, usage);
    fputc('\n', f);
    text(f, c->summary);
    fputs(".\n", f);
    if (c->help) {
        text(f, c->help);
        fputc('\n', f);
    }
    for (const struct option_row *o = c->options; o && o->name; o++) {
        fputs(".RS\n.TP\n.B ", f);
        if (o->letter)
            fprintf(f, "\\-%c, ", o->letter);
        fputs("\\-\\-", f);
        text(f, o->name);
        if (o->value) {
            fputc(' ', f);
            text(f, o->value);
        }
        fputc('\n', f);
        text(f, o->help);
        fputs(".\n.RE\n", f);
    }
}

const char manual_exit_codes[] =
    "0 success; 1 the job or a check failed; 2 wrong usage or invalid spec; 3 no such job, wrong "
    "state, or "
    "job cancelled; 4 system error; 65 verify-data found wrong data; 70 bug in jobctl; 93 retry "
    "limit reached, "
    "do not requeue; 124 wait --timeout expired; 130 interrupted by Ctrl-C, the job keeps running.";

void manual_print(FILE *f)
{
    fprintf(f, ".TH JOBCTL 1 \"\" \"jobctl %s\"\n.SH NAME\njobctl \\- train diffusion transformers, and "
            "run any other command, to completion\n.SH SYNOPSIS\n.B jobctl\n.I command\n"
            "[\\fIoptions\\fR] [\\fIarguments\\fR]\n.SH COMMANDS\n", JOBCTL_VERSION);
    for (const struct command *const *c = command_list(); *c; c++)
        print_command(f, *c);
    fputs(".SH JOBS\nA job is named by its id (7), a range (3\\-5 or 3,5\\-8), its name (the newest "
          "of that name), or\n.BR last .\n.SH JOB SPEC\nA YAML file with these keys:\n", f);
    struct spec_row row;
    size_t cursor = 0;
    while (spec_row_next(&row, &cursor)) {
        fputs(".TP\n.B ", f);
        text(f, row.path);
        fputc('\n', f);
        text(f, row.field->help);
        fputs(row.field->later && !row.field->def ? " (not supported yet)\n" : "\n", f);
    }
    fputs(".SH EXIT STATUS\n", f);
    text(f, manual_exit_codes);
    fputs("\n.SH ENVIRONMENT\n.TP\n.B JOBCTL_HOME\nwhere state is kept; otherwise "
          "$XDG_STATE_HOME/jobctl or ~/.local/state/jobctl\n.TP\n.B JOBCTL_OUTPUT\njson: as if "
          "\\-\\-json were given\n.TP\n.B NO_COLOR\nno colour on a terminal\n", f);
}
