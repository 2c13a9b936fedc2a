/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_completions.c - jobctl completions: shell scripts generated from the command rows
 *
 *   eval "$(jobctl completions bash)"
 */
#include <stdio.h>
#include <string.h>

#include "controller/cli/command.h"

static const struct option_row options[] = {{.name = NULL}};

static void command_names(FILE *f)
{
    for (const struct command *const *c = command_list(); *c; c++)
        fprintf(f, "%s%s", c == command_list() ? "" : " ", (*c)->name);
}

static void option_names(FILE *f, const struct command *c)
{
    for (const struct option_row *o = c->options; o && o->name; o++)
        fprintf(f, "--%s ", o->name);
    fprintf(f, "--help");
}

static bool takes_file(const struct command *c)
{
    return c->args == ARGS_FILE || c->args == ARGS_FILE_OR_NONE || c->args == ARGS_FILE_OR_JOB;
}

static const char *jobs_of(const struct command *c)
{
    return c->args == ARGS_JOB || c->args == ARGS_JOBS || c->args == ARGS_JOBS_OR_NONE ||
                   c->args == ARGS_FILE_OR_JOB
               ? "$(jobctl status -a -q 2>/dev/null) last" : "";
}

static void bash(FILE *f)
{
    fprintf(f, "# jobctl completions for bash: eval \"$(jobctl completions bash)\"\n"
            "_jobctl() {\n"
            "    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words= files=\n"
            "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words=\"");
    command_names(f);
    fprintf(f, "\"\n    else\n        case $command in\n");
    for (const struct command *const *c = command_list(); *c; c++) {
        fprintf(f, "        %s%s%s) ", (*c)->name, (*c)->aliases ? "|" : "",
                (*c)->aliases ? (*c)->aliases : "");
        fprintf(f, "words=\"");
        option_names(f, *c);
        fprintf(f, "\"");
        if (jobs_of(*c)[0])
            fprintf(f, "; [ \"${word#-}\" != \"$word\" ] || words=\"%s\"", jobs_of(*c));
        if (takes_file(*c))
            fprintf(f, "; files=1");
        if (strcmp((*c)->name, "completions") == 0)
            fprintf(f, "; words=\"bash zsh fish\"");
        fprintf(f, " ;;\n");
    }
    fprintf(f, "        esac\n    fi\n"
            "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
            "    [ -z \"$files\" ] || COMPREPLY+=($(compgen -f -- \"$word\"))\n"
            "}\ncomplete -o filenames -F _jobctl jobctl\n");
}

/* zsh takes "name:text" in single quotes; a quote in the text would end the string. */
static void quoted(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", f);
        else
            fputc(*text, f);
}

static void zsh(FILE *f)
{
    fprintf(f, "#compdef jobctl\n# jobctl completions for zsh: source <(jobctl completions zsh)\n"
            "_jobctl() {\n    local -a commands=(\n");
    for (const struct command *const *c = command_list(); *c; c++) {
        fprintf(f, "        '%s:", (*c)->name);
        quoted(f, (*c)->summary);
        fprintf(f, "'\n");
    }
    fprintf(f, "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n"
            "        return\n    fi\n    case $words[2] in\n");
    for (const struct command *const *c = command_list(); *c; c++) {
        fprintf(f, "    %s%s%s)\n        compadd -- ", (*c)->name, (*c)->aliases ? "|" : "",
                (*c)->aliases ? (*c)->aliases : "");
        option_names(f, *c);
        if (jobs_of(*c)[0])
            fprintf(f, "\n        compadd -- %s", jobs_of(*c));
        if (takes_file(*c))
            fprintf(f, "\n        _files");
        if (strcmp((*c)->name, "completions") == 0)
            fprintf(f, "\n        compadd -- bash zsh fish");
        fprintf(f, " ;;\n");
    }
    fprintf(f, "    esac\n}\n(( $+functions[compdef] )) && compdef _jobctl jobctl\n");
}

static void fish(FILE *f)
{
    fprintf(f, "# jobctl completions for fish: jobctl completions fish | source\n"
            "complete -c jobctl -f\n");
    for (const struct command *const *c = command_list(); *c; c++) {
        fprintf(f, "complete -c jobctl -n __fish_use_subcommand -a %s -d '", (*c)->name);
        quoted(f, (*c)->summary);
        fprintf(f, "'\n");
        for (const struct option_row *o = (*c)->options; o && o->name; o++) {
            fprintf(f, "complete -c jobctl -n '__fish_seen_subcommand_from %s' -l %s", (*c)->name,
                    o->name);
            if (o->letter)
                fprintf(f, " -s %c", o->letter);
            fprintf(f, "%s -d '", o->type == OPTION_FLAG ? "" : " -r");
            quoted(f, o->help);
            fprintf(f, "'\n");
        }
        if (takes_file(*c))
            fprintf(f, "complete -c jobctl -n '__fish_seen_subcommand_from %s' -F\n", (*c)->name);
        if (jobs_of(*c)[0])
            fprintf(f, "complete -c jobctl -n '__fish_seen_subcommand_from %s' -a "
                    "'(jobctl status -a -q 2>/dev/null) last'\n", (*c)->name);
    }
}

static int run(struct call *call)
{
    static const struct {
        const char *name;
        void      (*write)(FILE *f);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    const char *name = call->options.nargs ? call->options.args[0] : "";
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
        if (strcmp(shells[i].name, name) == 0) {
            shells[i].write(call->out.file);
            return 0;
        }
    return err_set(&call->err, ERR_USAGE, "unknown shell; use jobctl completions bash, zsh or "
                   "fish");
}

const struct command cmd_completions = {
    .name = "completions", .args = ARGS_WORD, .words = "bash|zsh|fish", .summary = "print a completion script for bash, zsh or "
    "fish", .options = options, .run = run,
};
