/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - jobctl help: commands, options, keys of the job spec and terms, from their tables */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/command.h"
#include "controller/cli/glossary.h"
#include "controller/cli/key_text.h"
#include "controller/cli/manual.h"
#include "controller/cli/output.h"
#include "controller/spec/spec_rows.h"
#include "controller/spec/spec_suggest.h"

static const struct option_row options[] = {{.name = NULL}};

static void print_commands(const struct terminal *t)
{
    fprintf(t->file, "jobctl trains diffusion transformers, and runs any other command, to "
                     "completion.\n\n"
            "  jobctl submit FILE      queue a job\n"
            "  jobctl status           list jobs with step and speed\n"
            "  jobctl why JOB          why the job waits, restarted or stopped\n\nCommands\n");
    for (const struct command *const *c = command_list(); *c; c++)
        fprintf(t->file, "  %s%-13s%s %s\n", terminal_style(t, STYLE_BOLD), (*c)->name,
                terminal_style(t, STYLE_PLAIN), (*c)->summary);
    fprintf(t->file, "\nSee jobctl help COMMAND for a command, jobctl help spec for the keys of a job "
            "spec,\njobctl help glossary for the terms, jobctl help pages for the manual pages.\n"
            "jobctl -H me@login COMMAND, or $JOBCTL_HOST, uses the jobctl of another machine, over SSH.\n"
            "State is kept in $JOBCTL_HOME, or ~/.local/state/jobctl.\n\n"
            "Exit codes\n");
    terminal_wrap(t, manual_exit_codes, 2);
}

static void print_command(const struct terminal *t, const struct command *c)
{
    char usage[256], left[64];
    command_usage(usage, sizeof(usage), c);
    fprintf(t->file, "%sjobctl %s%s\n", terminal_style(t, STYLE_BOLD), usage, terminal_style(t, STYLE_PLAIN));
    terminal_wrap(t, c->summary, 2);
    if (c->help) {
        fputc('\n', t->file);
        terminal_wrap(t, c->help, 2);
    }
    if (c->aliases)
        fprintf(t->file, "\n  Aliases: %s\n", c->aliases);
    if (!c->options || !c->options[0].name)
        return;
    fprintf(t->file, "\nOptions\n");
    for (const struct option_row *o = c->options; o->name; o++) {
        char letter[8] = "    ";
        if (o->letter)
            snprintf(letter, sizeof(letter), "-%c, ", o->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "", o->value ? o->value : "");
        fprintf(t->file, "  %-24s %s\n", left, o->help);
    }
}

static void print_spec(const struct terminal *t)
{
    struct spec_row row;
    size_t cursor = 0;
    fprintf(t->file, "A job spec is a YAML file with these keys (type, default, meaning):\n\n");
    while (spec_row_next(&row, &cursor)) {
        const struct spec_field *f = row.field;
        char def[64], line[600], shown[600];
        int depth = 0;
        for (const char *p = row.path; *p; p++)
            depth += *p == '.';
        key_text_default(def, sizeof(def), f);
        if (f->type == FIELD_MAP && !key_text_never(f))
            snprintf(line, sizeof(line), "%*s%s: %s", depth * 2, "", spec_row_leaf(row.path), f->help);
        else
            snprintf(line, sizeof(line), "%*s%-*s %-13s %-9s %s%s%s%s", depth * 2, "",
                     20 - depth * 2, spec_row_leaf(row.path), key_text_type(f), def, f->help,
                     f->choices ? ": " : "", f->choices ? f->choices : "", key_text_note(f));
        terminal_fit(t, shown, sizeof(shown), line, t->width);
        fprintf(t->file, "  %s\n", shown);
    }
    fprintf(t->file, "\nDurations are 30s, 5m, 1h 30m or \"24:00:00\". "
            "See docs/SPEC.md for more.\n");
}

static int run(struct call *call)
{
    const char *topic = call->options.nargs ? call->options.args[0] : NULL;
    const struct command *c = topic ? command_find(topic) : NULL;
    if (call->options.nargs > 1 && strcmp(topic, "man") != 0)
        return err_set(&call->err, ERR_USAGE, "help takes one word; see jobctl help help");
    if (!topic)
        print_commands(&call->out);
    else if (c)
        print_command(&call->out, c);
    else if (strcmp(topic, "spec") == 0)
        print_spec(&call->out);
    else if (strcmp(topic, "glossary") == 0)
        glossary_print(&call->out);
    else if (strcmp(topic, "pages") == 0)
        manual_list(call->out.file);
    else if (strcmp(topic, "man") == 0)
        return manual_print(call, call->options.nargs > 1 ? call->options.args[1] : "jobctl");
    else
        return err_set(&call->err, ERR_USAGE, "unknown command \"%.40s\"; jobctl help lists them", topic);
    return 0;
}

const struct command cmd_help = {
    .name = "help", .where = COMMAND_HERE, .args = ARGS_WORDS, .words = "[COMMAND|spec|glossary|man|pages]",
    .summary = "show this list, help on a command, the keys of a job spec, or the terms",
    .help = "`jobctl help man [PAGE]` prints a manual page: `jobctl help man submit | man -l -`; "
            "`jobctl help pages` lists the pages.",
    .options = options, .run = run,
};
