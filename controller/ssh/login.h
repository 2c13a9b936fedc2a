/* SPDX-License-Identifier: Apache-2.0 */
/* login.h - opens an ssh session to a known host without prompting
 *
 * The options of the host in ~/.ssh/config apply (HostName, User, Port, IdentityFile, ProxyJump,
 * ProxyCommand, known-hosts files). Nothing prompts on a terminal: an unknown or changed host key
 * ends the login before any secret is sent.
 *
 * ERR_USAGE: the user must fix something first. ERR_NOT_FOUND: the resolver has no such name. ERR_CONFLICT: the host
 * accepts none of our keys. ERR_SYSTEM: a retry may work.
 */
#ifndef CONTROLLER_SSH_LOGIN_H
#define CONTROLLER_SSH_LOGIN_H

#include <libssh/libssh.h>

#include <stddef.h>

struct err;

enum { LOGIN_CONNECT_S = 10, LOGIN_STEP_S = 30, LOGIN_EXIT_UNREACHED = 5, LOGIN_EXIT_LATE = 4 };

/* The caller calls ssh_disconnect() and ssh_free(); NULL on failure. */
ssh_session login_open(const char *host, struct err *err);

/* What the resolver knows about a host. UNKNOWN: no such name; JUMP: the jump host resolves the name; UNSURE: the
 * resolver does not answer. text: "" for KNOWN. Opens no connection. */
enum login_name { LOGIN_NAME_KNOWN, LOGIN_NAME_UNKNOWN, LOGIN_NAME_JUMP, LOGIN_NAME_UNSURE };
enum login_name login_look_up(const char *host, char *text, size_t size);

/* Sets a time limit of LOGIN_STEP_S for the next step, after which the process exits with a message and code 5 (4
 * after the login); 0: no limit. libssh has no timeout for most operations. */
void login_deadline(const char *host, unsigned seconds);

#endif
