/* SPDX-License-Identifier: Apache-2.0 */
/* host_terminal.h - a terminal on the host that mirrors the local one: its size, and every key */
#ifndef CONTROLLER_SSH_HOST_TERMINAL_H
#define CONTROLLER_SSH_HOST_TERMINAL_H

#include <libssh/libssh.h>
#include <stdbool.h>

/* Are stdin and stdout a terminal? */
bool host_terminal_wanted(void);

/* Call before the command of the channel starts; until host_terminal_close(), the user's terminal passes keys on
 * unchanged. */
void host_terminal_open(ssh_channel c);
void host_terminal_close(void);

/* Passes on a new window size, if it has changed. */
void host_terminal_resize(ssh_channel c);

#endif
