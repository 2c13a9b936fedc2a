/* SPDX-License-Identifier: Apache-2.0 */
/* far_host.h - the machine that `jobctl -H HOST` speaks to instead of this one
 *
 * A session is a helper process (jobctl-ssh relay) connected to `jobctl relay` on that machine, which answers
 * questions, one line of JSON each, and then becomes the connection to the daemon, which it starts if there is none.
 * OpenSSH's forwarding (direct-streamlocal@openssh.com) is not used: administrators disable it
 * (AllowStreamLocalForwarding, DisableForwarding), servers before 6.7 and other servers lack it, it needs the socket's
 * path, which only that machine knows, and it cannot start a daemon. Running a command works wherever a login does,
 * opens no port, and the socket's check of the peer's user holds as for any local command.
 *
 * One far host per process. Errors: ERR_USAGE: the user must fix something first; ERR_NOT_FOUND: no daemon runs there;
 * ERR_SYSTEM: a retry may work; ERR_CONFLICT: *stop was set.
 */
#ifndef CONTROLLER_BASE_FAR_HOST_H
#define CONTROLLER_BASE_FAR_HOST_H

#include <jansson.h>
#include <stdbool.h>

struct err;

/* The first line that `jobctl relay` prints, after any output of the login itself. */
#define FAR_HOST_READY "jobctl-relay 1\n"

/* "[USER@]HOST", as for ssh; must outlive the process. "" and NULL: this machine. */
int far_host_set(const char *host, struct err *err);

/* NULL: this machine. */
const char *far_host_name(void);

/* Asks the relay; *answer is a new object. If it is an error, {error: {code, text}, ...}, sets err and returns -1.
 * Both sides have the same version. */
int far_host_ask(json_t **answer, const json_t *question, struct err *err);

/* A descriptor connected to the daemon there; the caller owns it. Several may be open. */
int far_host_connect(bool start, const volatile int *stop, struct err *err);

/* The same for a port of 127.0.0.1 there, such as that of the dashboard. */
int far_host_connect_port(int port, struct err *err);

/* Calls `slow` once when the next answer takes longer than 2 s; NULL: no more. */
void far_host_when_slow(void (*slow)(void *user), void *user);

/* The reason why a connection broke; empty text: not known. */
void far_host_why(struct err *why);

/* The arguments of a login for the helper: "jobctl-ssh VERB HOST READY [PROGRAM]", ended by NULL. */
enum { FAR_HOST_WORDS = 6 };
void far_host_helper(const char *argv[FAR_HOST_WORDS], const char *verb);

#endif
