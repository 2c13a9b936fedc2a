/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - the list of commands; see command.h */
#include "controller/cli/command.h"

#include <stdio.h>
#include <string.h>

static const struct command *const commands[] = {
    &cmd_submit, &cmd_run, &cmd_plan, &cmd_status, &cmd_show, &cmd_logs, &cmd_wait, &cmd_dashboard, &cmd_why, &cmd_doctor,
    &cmd_diff, &cmd_cancel, &cmd_hold, &cmd_edit, &cmd_retry, &cmd_checkpoint, &cmd_nodes, &cmd_shell, &cmd_daemon,
    &cmd_help, &cmd_adopt, &cmd_best, &cmd_drill, &cmd_export, &cmd_fetch, &cmd_notify, &cmd_prune, &cmd_remove,
    &cmd_version, &cmd_completions, &cmd_relay, &cmd_render, &cmd_verify_data, &cmd_verify_resume, NULL,
};

const struct command *const *command_list(void)
{
    return commands;
}

static bool among(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = names; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (strcspn(p, "|") == n && memcmp(p, name, n) == 0)
            return true;
    }
    return false;
}

const struct command *command_find(const char *name)
{
    for (const struct command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0 || among((*c)->aliases, name))
            return *c;
    return NULL;
}

void command_usage(char *out, size_t size, const struct command *command)
{
    static const char *const args[] = {
        [ARGS_NONE] = "", [ARGS_COMMAND] = " [options] [--] CMD...", [ARGS_FILES] = " FILE...",
        [ARGS_FILE] = " FILE", [ARGS_FILE_OR_JOB] = " FILE|JOB",
        [ARGS_FILE_OR_NONE] = " [FILE]",
        [ARGS_JOB] = " JOB", [ARGS_JOB_COMMAND] = " JOB [-- COMMAND...]", [ARGS_JOBS] = " JOB...",
        [ARGS_JOBS_OR_NONE] = " [JOB...]", [ARGS_WORD] = " [WORD]", [ARGS_WORDS] = " [WORD...]",
    };
    const bool any = command->args != ARGS_COMMAND && command->options && command->options[0].name;
    snprintf(out, size, "%s%s%s%s", command->name, command->words ? " " : "",
             command->words ? command->words : args[command->args], any ? " [options]" : "");
}
