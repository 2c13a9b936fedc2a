/* SPDX-License-Identifier: Apache-2.0 */
/* far_command.h - a command of jobctl -H that runs on the far host, with the text of its file
 *
 * The file is read and checked here, so that mistakes have its name and lines; the command there gets its text as
 * standard input. Words travel in percent encoding, which no login shell interprets; at a terminal the command gets a
 * terminal on the host. Exit code, output and errors are those of the command.
 */
#ifndef CONTROLLER_MANAGE_FAR_COMMAND_H
#define CONTROLLER_MANAGE_FAR_COMMAND_H

struct call;
struct err;

/* argv: the words after the name, as options_parse() left them; call->options are parsed. Does not return, unless it
 * fails: -1 with call->err set. */
int far_command_run(struct call *call, int argc, char **argv);

/* On the far host: becomes `jobctl` with the encoded words, the first of which may be NAME=VALUE. Does not return,
 * unless it fails. */
int far_command_become(char *const *words, int n, struct err *err);

#endif
