/* SPDX-License-Identifier: Apache-2.0 */
/* host_command.h - runs a command on the host: for its output, or connected to stdin and stdout */
#ifndef CONTROLLER_SSH_HOST_COMMAND_H
#define CONTROLLER_SSH_HOST_COMMAND_H

#include <libssh/libssh.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* Its stdout and stderr, cut at their sizes, and its exit status; -1 if killed by a signal. */
int host_command_run(ssh_session s, const char *command, char *out, size_t out_size, char *wrong,
                     size_t wrong_size, int *status, struct err *err);

/* Copies descriptor 0 to the command and the command to 1, until either ends. Copying starts
 * after the command has printed the line `ready`; *began is false if it ended before. */
int host_command_pass(ssh_session s, const char *host, const char *command, const char *ready,
                      bool *began, char *wrong, size_t wrong_size, int *status, struct err *err);

#endif
