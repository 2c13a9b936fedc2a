/* SPDX-License-Identifier: Apache-2.0 */
/* command_list.c - see command_list.h */
#include "controller/help/command_list.h"

#include <string.h>

#include "controller/cli/command.h"

static const struct command *const commands[] = {
    &cmd_submit, &cmd_run, &cmd_plan, &cmd_status, &cmd_show, &cmd_logs, &cmd_wait, &cmd_dashboard, &cmd_why,
    &cmd_doctor, &cmd_diff, &cmd_cancel, &cmd_hold, &cmd_edit, &cmd_retry, &cmd_checkpoint, &cmd_nodes, &cmd_shell,
    &cmd_daemon, &cmd_help, &cmd_adopt, &cmd_best, &cmd_drill, &cmd_export, &cmd_fetch, &cmd_notify, &cmd_prune,
    &cmd_remove, &cmd_verify_data, &cmd_verify_resume, &cmd_version, &cmd_completions, &cmd_relay, &cmd_render, NULL,
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
