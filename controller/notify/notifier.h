/* SPDX-License-Identifier: Apache-2.0 */
/* notifier.h - sends the messages that wait in the store (db/notices.h), each target in a separate thread
 *
 * Nothing in the loop waits for a target: a message is described in the loop, sent by a thread for at most
 * NOTIFY_SEND_S, and its row changes when the thread has ended. A message is sent at least once: if the daemon is
 * killed between the answer of the other side and the commit, the next daemon sends it again, with the same id. A
 * target that fails is logged once, and once when it works again.
 */
#ifndef CONTROLLER_NOTIFY_NOTIFIER_H
#define CONTROLLER_NOTIFY_NOTIFIER_H

#include <jansson.h>
#include <stddef.h>

struct daemon;
struct err;
struct file_task;

int notifier_open(struct daemon *d, struct err *err);
void notifier_close(struct daemon *d);

/* Once a second (daemon_run.c). */
void notifier_look(struct daemon *d);

/* Why messages are not being delivered, in one line; "" if nothing is wrong. */
void notifier_problem(char *out, size_t size, const struct daemon *d);

/* [{name, kind, on, waiting, problem}]; NULL: config.yaml cannot be read. */
json_t *notifier_targets(const struct daemon *d, struct err *err);

/* For a request: a task that sends a test to a target of config.yaml (NULL: no memory), and its result, {target, ok,
 * text}, once it has ended. */
struct file_task *notifier_test(const struct daemon *d, const char *target, struct err *err);
json_t *notifier_tested(const struct file_task *task);

#endif
