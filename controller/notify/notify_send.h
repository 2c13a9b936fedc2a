/* SPDX-License-Identifier: Apache-2.0 */
/* notify_send.h - sends a message to a target and waits for its end: for a thread of its own
 *
 * Never longer than NOTIFY_SEND_S. No secret and no URL is in an error: only the kind of target, the host's answer and
 * what to do.
 */
#ifndef CONTROLLER_NOTIFY_NOTIFY_SEND_H
#define CONTROLLER_NOTIFY_NOTIFY_SEND_H

#include <jansson.h>
#include <stdbool.h>

struct err;
struct notice_message;

enum { NOTIFY_SEND_S = 20 };

/* Before any thread. */
void notify_send_init(void);

/* `target` as of controller/spec/notify_target.h. -1: not sent; *refused: the other side would refuse it again. */
int notify_send(const json_t *target, const struct notice_message *m, bool *refused, struct err *err);

#endif
