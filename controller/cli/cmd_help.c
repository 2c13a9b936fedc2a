/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_help.c - jobctl help: commands, options, keys of the job spec and terms, from their tables */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/cli/command.h"
#include "controller/cli/glossary.h"
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
            "spec,\njobctl help glossary for the terms, jobctl help man for the manual page.\n"
            "State is kept in $JOBCTL_HOME, or ~/.local/state/jobctl.\n\n"
            "Exit codes\n");
    terminal_wrap(t, manual_exit_codes, 2);
}

static void print_command(const struct terminal *t, const struct command *c)
{
    char usage[256], left[64];
    command_usage(usage, sizeof(usage), c);
    fprintf(t->file, "%sjobctl %s%s\n", terminal_style(t, STYLE_BOLD), usage,
            terminal_style(t, STYLE_PLAIN));
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
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        fprintf(t->file, "  %-24s %s\n", left, o->help);
    }
}

static const char *type_of(const struct spec_field *f)
{
    static const char *const names[] = {
        [FIELD_MAP] = "map", [FIELD_BOOL] = "true, false", [FIELD_INT] = "whole number",
        [FIELD_NUMBER] = "number", [FIELD_STRING] = "text", [FIELD_ENUM] = "one word",
        [FIELD_PATH] = "path", [FIELD_NUMBERS] = "numbers", [FIELD_STRINGS] = "list",
        [FIELD_STRING_MAP] = "map of texts", [FIELD_DURATION] = "duration",
        [FIELD_RANGE] = "durations", [FIELD_EVERY] = "steps or time", [FIELD_ITEMS] = "list of maps",
    };
    return names[f->type];
}

/* A default as YAML text. */
static void default_of(char *out, size_t size, const struct spec_field *f)
{
    if (!f->def || strcmp(f->def, "null") == 0 || strcmp(f->def, "\"\"") == 0)
        snprintf(out, size, "-");
    else if (f->type == FIELD_EVERY)
        snprintf(out, size, "500 steps");
    else if (f->type == FIELD_RANGE)
        snprintf(out, size, "5s..5m");
    else if (f->type == FIELD_DURATION && f->def[0] != '"')
        snprintf(out, size, "%gs", strtod(f->def, NULL));
    else if (f->def[0] == '"')
        snprintf(out, size, "%.*s", (int)strlen(f->def) - 2, f->def + 1);
    else
        snprintf(out, size, "%s", f->def);
}

static void print_spec(const struct terminal *t)
{
    struct spec_row row;
    size_t cursor = 0;
    fprintf(t->file, "A job spec is a YAML file with these keys (type, default, meaning):\n\n");
    while (spec_row_next(&row, &cursor)) {
        const struct spec_field *f = row.field;
        bool never = f->later && (!f->def || strcmp(f->def, "null") == 0);
        char def[64], line[600], shown[600];
        int depth = 0;
        for (const char *p = row.path; *p; p++)
            depth += *p == '.';
        default_of(def, sizeof(def), f);
        if (f->type == FIELD_MAP && !never)
            snprintf(line, sizeof(line), "%*s%s: %s", depth * 2, "", spec_row_leaf(row.path),
                     f->help);
        else
            snprintf(line, sizeof(line), "%*s%-*s %-13s %-9s %s%s%s%s", depth * 2, "",
                     20 - depth * 2, spec_row_leaf(row.path), type_of(f), def, f->help,
                     f->choices ? ": " : "", f->choices ? f->choices : "",
                     never ? " (not supported yet)" : f->later ? " (the only value so far)" : "");
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
    if (!topic)
        print_commands(&call->out);
    else if (c)
        print_command(&call->out, c);
    else if (strcmp(topic, "spec") == 0)
        print_spec(&call->out);
    else if (strcmp(topic, "glossary") == 0)
        glossary_print(&call->out);
    else if (strcmp(topic, "man") == 0)
        manual_print(call->out.file);
    else
        return err_set(&call->err, ERR_USAGE, "unknown command \"%.40s\"; jobctl help lists the "
                       "them", topic);
    return 0;
}

const struct command cmd_help = {
    .name = "help", .args = ARGS_WORD, .words = "[COMMAND|spec|glossary|man]",
    .summary = "show this list, help on a command, the keys of a job spec, or the terms",
    .options = options, .run = run,
};
