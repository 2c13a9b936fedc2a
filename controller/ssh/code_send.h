/* SPDX-License-Identifier: Apache-2.0 */
/* code_send.h - sends a job's code to a host, before its agent is started there (agent/code/code_receive.h)
 *
 * Files are identified by the digest of their contents: the host names those that it lacks.
 */
#ifndef CONTROLLER_SSH_CODE_SEND_H
#define CONTROLLER_SSH_CODE_SEND_H

#include <libssh/libssh.h>
#include <stdbool.h>
#include <stddef.h>

struct err;

/* `code`: jobs/<id>/code of a job with a snapshot (controller/job/job_code.h). `command` runs code_receive() on the
 * host. *began is false if it ended with *status before it was ready; its message is in `wrong`. */
int code_send(ssh_session s, const char *host, const char *command, const char *code, bool *began, char *wrong,
              size_t wrong_size, int *status, struct err *err);

#endif
