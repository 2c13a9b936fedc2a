/* SPDX-License-Identifier: Apache-2.0 */
/* login.h - a session with a host that is known, as a user that it lets in, without a question asked
 *
 * What ~/.ssh/config says of the host counts (HostName, User, Port, IdentityFile, ProxyJump,
 * ProxyCommand, known-hosts files). Nothing is ever asked on a terminal: a key that is not in
 * known_hosts, or another than there, ends it before anything secret was sent.
 *
 * ERR_USAGE: somebody must change something first. ERR_SYSTEM: it may work later.
 */
#ifndef CONTROLLER_SSH_LOGIN_H
#define CONTROLLER_SSH_LOGIN_H

#include <libssh/libssh.h>

struct err;

enum { LOGIN_CONNECT_S = 10, LOGIN_STEP_S = 30 };

/* For ssh_disconnect() and ssh_free(); NULL on failure. */
ssh_session login_open(const char *host, struct err *err);

/* What takes longer than LOGIN_STEP_S from now on ends this process with a sentence and 4; 0: may
 * take for ever. libssh knows no such limit for most of what it does. */
void login_deadline(const char *host, unsigned seconds);

#endif
