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

/* Does jobctl-agent's exit status mean that it cannot create its files there, so that a retry does not help? */
bool host_command_lacks_home(int status);

/* A conversation with a command: lines and bytes in turn. */
struct host_talk {
    ssh_channel channel;
    const char *host;
    char        noise[100]; /* the first line that the login itself printed */
};

/* *began: the command has printed the line `ready`; false: it ended before that. */
int host_talk_open(struct host_talk *t, ssh_session s, const char *host, const char *command, const char *ready,
                   bool *began, struct err *err);
int host_talk_send(struct host_talk *t, const char *bytes, size_t size, struct err *err);

/* The next line, without its end. */
int host_talk_line(struct host_talk *t, char *line, size_t size, struct err *err);

/* The last line of its stderr, and its exit status if known. */
void host_talk_close(struct host_talk *t, char *wrong, size_t wrong_size, int *status);

/* Runs a command with our stdin, stdout and stderr, in a terminal on the host if stdin and stdout are a terminal.
 * Output before the line `ready` is dropped. *status: its exit code, -1 if killed by a signal. */
int host_command_carry(ssh_session s, const char *host, const char *command, const char *ready, bool *began,
                       int *status, struct err *err);

#endif
