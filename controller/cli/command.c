/* SPDX-License-Identifier: Apache-2.0 */
/* command.c - see command.h */
#include "controller/cli/command.h"

#include <stdio.h>

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
