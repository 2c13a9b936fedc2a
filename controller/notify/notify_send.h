/* SPDX-License-Identifier: Apache-2.0 */
/* notify_send.h - sends a message to a target and waits; call it in a separate thread
 *
 * Takes at most NOTIFY_SEND_S. Errors contain no secret and no URL: only the kind of target, the host's answer and what
 * to do.
 */
#ifndef CONTROLLER_NOTIFY_NOTIFY_SEND_H
#define CONTROLLER_NOTIFY_NOTIFY_SEND_H

#include <jansson.h>
#include <stdbool.h>

struct err;
struct notice_message;

enum { NOTIFY_SEND_S = 20 };

/* Call before any thread is started. */
void notify_send_init(void);

/* `target` as in controller/spec/notify_target.h. -1: not sent; *refused: the other side would refuse it again. */
int notify_send(const json_t *target, const struct notice_message *m, bool *refused, struct err *err);

#endif
