/* SPDX-License-Identifier: Apache-2.0 */
/* notify_target.h - notification targets: the key `notify` in config.yaml
 *
 *     notify:
 *       team:  {webhook: "${SLACK_URL}"}
 *       me:    {email: me@example.org, smtp: "smtps://mail.example.org", user: me, password: "${MAIL_PASSWORD}"}
 *       phone: {command: "my-push --title 'a job has ended'", on: [failed]}
 *
 * A target is {name, on: [EVENT...]} and one of {webhook, format}, {email: [ADDRESS...], from, smtp, user, password}
 * and {command}. "${NAME}" stands for a secret (controller/notify/secret_ref.h) and is kept as it is.
 */
#ifndef CONTROLLER_SPEC_NOTIFY_TARGET_H
#define CONTROLLER_SPEC_NOTIFY_TARGET_H

#include <jansson.h>

struct err;
struct yaml_mark;
struct yaml_node;

enum { NOTIFY_TARGET_NAME = 64 };

/* Adds one entry of `notify` to the list. -1: *at is the place of the mistake, and err has the message without the
 * place. */
int notify_target_parse(json_t *targets, const struct yaml_node *node, struct yaml_mark *at, struct err *err);

/* Of a list of targets; NULL: none. */
const json_t *notify_target_find(const json_t *targets, const char *name);

#endif
