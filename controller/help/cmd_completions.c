/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_completions.c - jobctl completions: shell scripts generated from the command rows
 *
 *   eval "$(jobctl completions bash)"
 *
 * The kinds of words that may come next: files, options, first (subcommands such as `nodes drain`), none, or one of the
 * words below, for which the script runs `jobctl completions KIND`.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/cli/command.h"
#include "controller/help/command_list.h"
#include "controller/help/key_text.h"
#include "controller/spec/spec_rows.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

static const struct option_row options[] = {{.name = NULL}};

/* ---- words that are known only at run time: jobs, nodes, keys ---- */

/* The list `name` in the daemon's answer, for json_decref(); NULL if there is none. */
static json_t *fetch(const char *path, const char *name)
{
    struct client *c = NULL;
    struct err none = {0};
    json_t *answer = NULL, *list = NULL;
    if (client_open(&c, false, &none) == 0 && client_get(c, &answer, &none, "%s", path) == 0)
        list = json_incref(json_object_get(answer, name));
    json_decref(answer);
    client_close(c);
    return list;
}

/* Is it the first row of this name?  Then it is the newest job that the name stands for. */
static bool first_of_name(const json_t *jobs, size_t at)
{
    const char *name = field_text(json_array_get(jobs, at), "name");
    for (size_t i = 0; i < at; i++)
        if (strcmp(field_text(json_array_get(jobs, i), "name"), name) == 0)
            return false;
    return true;
}

static void print_jobs(FILE *f)
{
    json_t *jobs = fetch("/v1/jobs?all=1&limit=100", "jobs"), *row;
    size_t i;
    json_array_foreach (jobs, i, row) {
        const char *result = field_text(row, "result");
        fprintf(f, "%lld\t%s, %s\n", (long long)json_integer_value(json_object_get(row, "id")), field_text(row, "name"),
                result[0] ? result : field_text(row, "state"));
    }
    json_array_foreach (jobs, i, row)
        if (first_of_name(jobs, i))
            fprintf(f, "%s\tjob %lld\n", field_text(row, "name"),
                    (long long)json_integer_value(json_object_get(row, "id")));
    if (json_array_size(jobs) > 0)
        fputs("last\tthe newest job\n", f);
    json_decref(jobs);
}

static void print_nodes(FILE *f)
{
    json_t *nodes = fetch("/v1/nodes", "nodes"), *row;
    size_t i;
    json_array_foreach (nodes, i, row)
        fprintf(f, "%s\t%s\n", field_text(row, "name"), field_text(row, "state"));
    json_decref(nodes);
}

/* Keys that `--set` takes: those with a value of their own. */
static void print_keys(FILE *f)
{
    struct spec_row row;
    size_t cursor = 0;
    while (spec_row_next(&row, &cursor))
        if (row.field->type != FIELD_MAP && !strchr(row.path, '['))
            fprintf(f, "%s=\t%s\n", row.path, row.field->help);
}

/* Prints the words of a kind; false if there is no such kind. */
static bool completion_words_print(FILE *f, const char *kind)
{
    static const struct { const char *kind; void (*print)(FILE *f); } rows[] = {
        {"jobs", print_jobs}, {"nodes", print_nodes}, {"keys", print_keys},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].kind, kind) == 0) {
            rows[i].print(f);
            return true;
        }
    return false;
}

/* ---- what a word may be ---- */

static const char *kinds_of(const struct command *c)
{
    static const char *const kinds[] = {
        [ARGS_NONE] = "none", [ARGS_COMMAND] = "files", [ARGS_FILES] = "files",
        [ARGS_FILE] = "files", [ARGS_FILE_OR_JOB] = "files jobs",
        [ARGS_FILE_OR_NONE] = "files", [ARGS_JOB] = "jobs", [ARGS_JOB_COMMAND] = "jobs",
        [ARGS_JOBS] = "jobs", [ARGS_JOBS_OR_NONE] = "jobs",
        [ARGS_WORD] = "none", [ARGS_WORDS] = "none",
    };
    return c->words && strstr(c->words, "HOST") ? "nodes" : kinds[c->args];
}

/* The kind of an option's value, by its placeholder. */
static const char *kind_of_value(const struct option_row *o)
{
    static const struct { const char *value, *kind; } rows[] = {{"KEY=VALUE", "keys"}, {"FILE", "files"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (o->value && strcmp(o->value, rows[i].value) == 0)
            return rows[i].kind;
    return "none";
}

static bool wants_value(const struct option_row *o)
{
    return o->type != OPTION_FLAG;
}

static void command_names(FILE *f)
{
    for (const struct command *const *c = command_list(); *c; c++)
        if ((*c)->group != GROUP_HIDDEN)
            fprintf(f, "%s%s", c == command_list() ? "" : " ", (*c)->name);
}

/* The words that the usage line spells out: "test add" of "[test|add HOST...]". */
static void first_words(FILE *f, const struct command *c)
{
    const char *before = "";
    for (const char *p = c->words ? c->words : ""; *p; p += strcspn(p, "[]| ")) {
        p += strspn(p, "[]| ");
        const int n = (int)strcspn(p, "[]| ");
        if (n > 0 && islower((unsigned char)*p))
            fprintf(f, "%s%.*s", before, n, p);
        else if (strncmp(p, "COMMAND", 7) == 0)
            command_names(f);
        else
            continue;
        before = " ";
    }
}

static bool has_first(const struct command *c)
{
    return c->words && (strstr(c->words, "COMMAND") || c->words[strcspn(c->words, "abcdefghijklmnopqrstuvwxyz")]);
}

/* A text in single quotes; a quote in it would end the string. */
static void quoted(FILE *f, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", f);
        else
            fputc(*text, f);
}

/* The labels of a `case` of bash and zsh. */
static void labels(FILE *f, const struct command *c)
{
    fprintf(f, "    %s%s%s)", c->name, c->aliases ? "|" : "", c->aliases ? c->aliases : "");
}

/* ---- bash ---- */

static const char bash_head[] =
    "# jobctl completions for bash: eval \"$(jobctl completions bash)\"\n"
    "_jobctl() {\n"
    "    local -a host=()\n"
    "    if [ \"${COMP_WORDS[1]}\" = -H ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
    "        host=(-H \"${COMP_WORDS[2]}\")\n"
    "        COMP_WORDS=(\"${COMP_WORDS[0]}\" \"${COMP_WORDS[@]:3}\")\n"
    "        COMP_CWORD=$((COMP_CWORD - 2))\n"
    "    fi\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    local kinds=none first= options= values= kind pair words= commands='";

static const char bash_case[] =
    "'\n"
    "    # bash makes three words of --set=KEY\n"
    "    if [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
    "    if [ \"$word\" = = ]; then word=; fi\n"
    "    case ${COMP_WORDS[1]} in\n";

static const char bash_tail[] =
    "    esac\n"
    "    if [ \"$COMP_CWORD\" = 2 ] && [ -n \"$first\" ]; then kinds=first; fi\n"
    "    case $word in -*) kinds=options ;; esac\n"
    "    for pair in $values; do\n"
    "        if [ \"${pair%:*}\" = \"$before\" ]; then kinds=${pair#*:}; fi\n"
    "    done\n"
    "    if [ \"$COMP_CWORD\" = 1 ]; then kinds=commands; fi\n"
    "    COMPREPLY=()\n"
    "    for kind in $kinds; do\n"
    "        case $kind in\n"
    "        none) ;;\n"
    "        commands) words+=\" $commands\" ;;\n"
    "        first) words+=\" $first\" ;;\n"
    "        options) words+=\" $options\" ;;\n"
    "        files) compopt -o filenames 2>/dev/null\n"
    "            mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "        *) words+=\" $(jobctl \"${host[@]}\" completions \"$kind\" 2>/dev/null | cut -f 1)\" ;;\n"
    "        esac\n"
    "    done\n"
    "    if [ \"$kinds\" = keys ]; then compopt -o nospace 2>/dev/null; fi\n"
    "    COMPREPLY+=($(compgen -W \"$words\" -- \"$word\"))\n"
    "}\n"
    "complete -F _jobctl jobctl\n";

static void bash_values(FILE *f, const struct option_row *o)
{
    for (; o && o->name; o++)
        if (wants_value(o)) {
            fprintf(f, " --%s:%s", o->name, kind_of_value(o));
            if (o->letter)
                fprintf(f, " -%c:%s", o->letter, kind_of_value(o));
        }
}

static void bash(FILE *f)
{
    fputs(bash_head, f);
    command_names(f);
    fputs(bash_case, f);
    for (const struct command *const *c = command_list(); *c; c++) {
        labels(f, *c);
        fprintf(f, " kinds='%s' first='", kinds_of(*c));
        first_words(f, *c);
        fputs("' options='", f);
        for (const struct option_row *o = (*c)->options; o && o->name; o++)
            fprintf(f, "--%s ", o->name);
        fputs("--help' values='", f);
        bash_values(f, (*c)->options);
        fputs("' ;;\n", f);
    }
    fputs(bash_tail, f);
}

/* ---- zsh ---- */

static const char zsh_head[] =
    "#compdef jobctl\n# jobctl completions for zsh: source <(jobctl completions zsh)\n"
    "# Words of a kind with their meanings; more arguments are for compadd.\n"
    "_jobctl_ask() {\n"
    "    local -a list\n"
    "    list=(${(f)\"$(jobctl \"${host[@]}\" completions $1 2>/dev/null)\"})\n"
    "    list=(\"${list[@]/$'\\t'/:}\")\n"
    "    (( $#list )) && _describe $1 list \"${@:2}\"\n"
    "}\n"
    "_jobctl() {\n"
    "    local -a host\n"
    "    if [[ $words[2] == -H ]] && (( CURRENT > 3 )); then\n"
    "        host=(-H \"$words[3]\") words=(\"$words[1]\" \"${(@)words[4,-1]}\")\n"
    "        (( CURRENT -= 2 ))\n"
    "    fi\n"
    "    local kinds=none before=$words[CURRENT-1] kind\n"
    "    local -a first options commands=(\n";

static const char zsh_case[] =
    "    )\n"
    "    local -A values\n"
    "    if [[ $PREFIX == --*=* ]]; then before=${PREFIX%%=*}; compset -P 1 '*='; fi\n"
    "    case $words[2] in\n";

static const char zsh_tail[] =
    "    esac\n"
    "    (( CURRENT == 3 && $#first )) && kinds=first\n"
    "    [[ $PREFIX == -* ]] && kinds=options\n"
    "    [[ -n $before && -n ${values[$before]} ]] && kinds=${values[$before]}\n"
    "    (( CURRENT == 2 )) && kinds=commands\n"
    "    for kind in ${=kinds}; do\n"
    "        case $kind in\n"
    "        none) ;;\n"
    "        commands) _describe command commands ;;\n"
    "        first) compadd -- $first ;;\n"
    "        options) _describe -o option options ;;\n"
    "        files) _files ;;\n"
    "        keys) _jobctl_ask keys -S '' ;;\n"
    "        *) _jobctl_ask $kind ;;\n"
    "        esac\n"
    "    done\n"
    "}\n"
    "# As a file of fpath this is the body of _jobctl when it is called first.\n"
    "if [[ $funcstack[1] == _jobctl ]]; then _jobctl \"$@\"\n"
    "elif (( $+functions[compdef] )); then compdef _jobctl jobctl; fi\n";

static void zsh_options(FILE *f, const struct option_row *o)
{
    fputs("        options=(", f);
    for (; o && o->name; o++) {
        fprintf(f, "'--%s:", o->name);
        quoted(f, o->help);
        fputs("' ", f);
    }
    fputs("'--help:print the usage and the options')\n", f);
}

static void zsh_values(FILE *f, const struct option_row *o)
{
    fputs("        values=(", f);
    for (; o && o->name; o++)
        if (wants_value(o)) {
            fprintf(f, " --%s %s", o->name, kind_of_value(o));
            if (o->letter)
                fprintf(f, " -%c %s", o->letter, kind_of_value(o));
        }
    fputs(" ) ;;\n", f);
}

static void zsh(FILE *f)
{
    fputs(zsh_head, f);
    for (const struct command *const *c = command_list(); *c; c++) {
        if ((*c)->group == GROUP_HIDDEN)
            continue;
        fprintf(f, "        '%s:", (*c)->name);
        quoted(f, (*c)->summary);
        fputs("'\n", f);
    }
    fputs(zsh_case, f);
    for (const struct command *const *c = command_list(); *c; c++) {
        labels(f, *c);
        fprintf(f, "\n        kinds='%s' first=(", kinds_of(*c));
        first_words(f, *c);
        fputs(")\n", f);
        zsh_options(f, (*c)->options);
        zsh_values(f, (*c)->options);
    }
    fputs(zsh_tail, f);
}

/* ---- fish ---- */

static const char fish_head[] =
    "# jobctl completions for fish: jobctl completions fish | source\n"
    "# The words behind -H HOST.\n"
    "function __jobctl_words\n"
    "    set -l words (commandline -opc)[2..-1]\n"
    "    if test (count $words) -ge 2; and test \"$words[1]\" = -H\n"
    "        set words $words[3..-1]\n"
    "    else if string match -q -- '--host=*' $words[1]\n"
    "        set words $words[2..-1]\n"
    "    end\n"
    "    string join \\n -- $words\n"
    "end\n"
    "function __jobctl_first\n"
    "    test (count (__jobctl_words)) -eq 0\n"
    "end\n"
    "function __jobctl_is\n"
    "    set -l words (__jobctl_words)\n"
    "    test (count $words) -ge 1; and contains -- $words[1] $argv\n"
    "end\n"
    "function __jobctl_ask\n"
    "    set -l words (commandline -opc)\n"
    "    set -l host\n"
    "    if test (count $words) -ge 3; and test \"$words[2]\" = -H\n"
    "        set host -H \"$words[3]\"\n"
    "    else if test (count $words) -ge 2; and string match -q -- '--host=*' $words[2]\n"
    "        set host $words[2]\n"
    "    end\n"
    "    jobctl $host completions $argv 2>/dev/null\n"
    "end\n"
    "complete -c jobctl -f\n"
    "complete -c jobctl -n 'test (count (commandline -opc)) -le 2; and test (count (__jobctl_words)) -le 1' -s H -l host -x "
    "-d 'use jobctl on another machine'\n";

/* The condition that the command is `c`, under one of its names. */
static void fish_seen(FILE *f, const struct command *c)
{
    fprintf(f, "complete -c jobctl -n '__jobctl_is %s", c->name);
    for (const char *p = c->aliases; p; p = strchr(p, '|')) {
        p += *p == '|';
        fprintf(f, " %.*s", (int)strcspn(p, "|"), p);
    }
}

static void fish_kinds(FILE *f, const char *kinds)
{
    if (strncmp(kinds, "files", 5) == 0)
        fputs(" -F", f);
    if (strcmp(kinds, "files") != 0 && strcmp(kinds, "none") != 0)
        fprintf(f, " -a '(__jobctl_ask %s)'", kinds[0] == 'f' ? kinds + 6 : kinds);
}

static void fish_option(FILE *f, const struct command *c, const struct option_row *o)
{
    fish_seen(f, c);
    fprintf(f, "' -l %s", o->name);
    if (o->letter)
        fprintf(f, " -s %c", o->letter);
    if (wants_value(o)) {
        fputs(strcmp(kind_of_value(o), "files") == 0 ? " -r" : " -x", f);
        fish_kinds(f, kind_of_value(o));
    }
    fputs(" -d '", f);
    quoted(f, o->help);
    fputs("'\n", f);
}

static void fish_arguments(FILE *f, const struct command *c)
{
    if (has_first(c)) {
        fish_seen(f, c);
        fputs("; and test (count (__jobctl_words)) -eq 1' -a '", f);
        first_words(f, c);
        fputs("'\n", f);
    }
    if (strcmp(kinds_of(c), "none") != 0) {
        fish_seen(f, c);
        fputs(has_first(c) ? "; and test (count (__jobctl_words)) -gt 1'" : "'", f);
        fish_kinds(f, kinds_of(c));
        fputc('\n', f);
    }
}

static void fish(FILE *f)
{
    fputs(fish_head, f);
    for (const struct command *const *c = command_list(); *c; c++) {
        if ((*c)->group != GROUP_HIDDEN) {
            fprintf(f, "complete -c jobctl -n __jobctl_first -a %s -d '", (*c)->name);
            quoted(f, (*c)->summary);
            fputs("'\n", f);
        }
        for (const struct option_row *o = (*c)->options; o && o->name; o++)
            fish_option(f, *c, o);
        fish_arguments(f, *c);
    }
}

/* ---- the command ---- */

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
    if (completion_words_print(call->out.file, name))
        return 0;
    return err_set(&call->err, ERR_USAGE, "unknown shell; use jobctl completions bash, zsh or fish");
}

const struct command cmd_completions = {
    .name = "completions", .group = GROUP_HIDDEN, .args = ARGS_WORD, .words = "bash|zsh|fish|jobs|nodes|keys",
    .summary = "print a completion script for bash, zsh or fish",
    .help = "The scripts call `jobctl completions jobs`, `nodes` and `keys` for words with their meanings. These calls "
            "start no daemon.",
    .options = options, .run = run,
};
