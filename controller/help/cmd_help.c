/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - jobctl help: commands, options, keys of the job spec and terms, from their tables */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/help/command_list.h"
#include "controller/help/glossary.h"
#include "controller/help/manual.h"
#include "controller/help/spec_help.h"

static const struct option_row options[] = {
    {"all", 'a', OPTION_FLAG, NULL, "all commands, or with spec all keys"},
    {.name = NULL},
};

static void print_group(const struct terminal *t, enum command_group group, const char *title)
{
    fprintf(t->file, "\n%s\n", title);
    for (const struct command *const *c = command_list(); *c; c++)
        if ((*c)->group == group)
            fprintf(t->file, "  %s%-13s%s %s\n", terminal_style(t, STYLE_BOLD), (*c)->name,
                    terminal_style(t, STYLE_PLAIN), (*c)->summary);
}

static void print_commands(const struct terminal *t, bool all)
{
    static const struct {
        enum command_group group;
        const char        *title;
    } groups[] = {
        {GROUP_START, "Start"}, {GROUP_WATCH, "Watch"}, {GROUP_EXPLAIN, "Explain"}, {GROUP_CHANGE, "Change"},
        {GROUP_MACHINES, "Machines"}, {GROUP_SETUP, "Set up"}, {GROUP_MORE, "More"},
    };
    fprintf(t->file, "jobctl trains diffusion transformers, and runs any other command, to completion.\n");
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        if (all || groups[i].group != GROUP_MORE)
            print_group(t, groups[i].group, groups[i].title);
    fprintf(t->file, "\n%sjobctl help COMMAND explains a command, help spec the keys of a job spec, help glossary the "
            "terms;\nhelp pages lists the manual pages. jobctl -H me@login COMMAND, or $JOBCTL_HOST, uses jobctl on\n"
            "another machine, over SSH. State is kept in $JOBCTL_HOME, or ~/.local/state/jobctl.\n",
            all ? "" : "jobctl help --all lists the other commands and the exit codes.\n");
    if (all) {
        fprintf(t->file, "\nExit codes\n");
        terminal_wrap(t, manual_exit_codes, 2);
    }
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

static int print_spec(struct call *call, const char *key)
{
    if (key)
        return spec_help_key(&call->out, key, &call->err);
    spec_help_list(&call->out, options_has(&call->options, "all"));
    return 0;
}

static int run(struct call *call)
{
    const char *topic = call->options.nargs ? call->options.args[0] : NULL;
    const struct command *c = topic ? command_find(topic) : NULL;
    const char *more = call->options.nargs > 1 ? call->options.args[1] : NULL;
    if (call->options.nargs > 2 || (more && strcmp(topic, "man") != 0 && strcmp(topic, "spec") != 0))
        return err_set(&call->err, ERR_USAGE, "help takes one word, or spec KEY, or man PAGE; see jobctl help help");
    if (!topic)
        print_commands(&call->out, options_has(&call->options, "all"));
    else if (c)
        print_command(&call->out, c);
    else if (strcmp(topic, "spec") == 0)
        return print_spec(call, more);
    else if (strcmp(topic, "glossary") == 0)
        glossary_print(&call->out);
    else if (strcmp(topic, "pages") == 0)
        manual_list(call->out.file);
    else if (strcmp(topic, "man") == 0)
        return manual_print(call, more ? more : "jobctl");
    else
        return err_set(&call->err, ERR_USAGE, "unknown command \"%.40s\"; jobctl help lists them", topic);
    return 0;
}

const struct command cmd_help = {
    .name = "help", .group = GROUP_SETUP, .where = COMMAND_HERE, .args = ARGS_WORDS,
    .words = "[COMMAND|spec [KEY]|glossary|man [PAGE]|pages]",
    .summary = "show this list, help on a command, the keys of a job spec, or the terms",
    .help = "`jobctl help spec` lists the keys that most jobs use, `jobctl help spec --all` all keys, `jobctl help spec "
            "KEY` one with an example. `jobctl help man [PAGE]` prints a manual page: `jobctl help man submit | man -l -`; "
            "`jobctl help pages` lists the pages.",
    .options = options, .run = run,
};
