/* SPDX-License-Identifier: Apache-2.0 */
/* command_list.h - all commands */
#ifndef CONTROLLER_HELP_COMMAND_LIST_H
#define CONTROLLER_HELP_COMMAND_LIST_H

struct command;

/* The rows in the order of help, ended by NULL; and lookup by name or alias. */
const struct command *const *command_list(void);
const struct command *command_find(const char *name);

#endif
