/* SPDX-License-Identifier: Apache-2.0 */
/* host_command.h - run a command on the host: for its answer, or as the other end of our input and
 * output */
#ifndef CONTROLLER_SSH_HOST_COMMAND_H
#define CONTROLLER_SSH_HOST_COMMAND_H

#include <libssh/libssh.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* What it says on both outputs, cut at their sizes, and its exit status; -1 when a signal ended it. */
int host_command_run(ssh_session s, const char *command, char *out, size_t out_size, char *wrong,
                     size_t wrong_size, int *status, struct err *err);

/* Bytes from 0 to it and from it to 1, until either ends. Nothing is passed on before it has said
 * the line `ready`, nor is anything read: *began stays false when it ended without. */
int host_command_pass(ssh_session s, const char *host, const char *command, const char *ready,
                      bool *began, char *wrong, size_t wrong_size, int *status, struct err *err);

#endif
