/* SPDX-License-Identifier: Apache-2.0 */
/* manual.h - the manual pages, generated from the rows of commands, options, keys and settings
 *
 * A page has the name of its file: "jobctl-submit.1". Pages of jobctl-agent and jobctl-train come from these programs,
 * which must be next to this one.
 */
#ifndef CONTROLLER_HELP_MANUAL_H
#define CONTROLLER_HELP_MANUAL_H

#include <stdio.h>

struct call;

/* The names of all pages, one per line. */
void manual_list(FILE *f);

/* Prints a page in man(7) to call->out. The section in `name` may be omitted, and so may "jobctl-" before a command.
 * ERR_USAGE: unknown name. */
int manual_print(struct call *call, const char *name);

/* The meaning of exit codes, for all commands. */
extern const char manual_exit_codes[];

#endif
