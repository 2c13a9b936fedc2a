/* SPDX-License-Identifier: Apache-2.0 */
/* notice_payload.h - formats a message for a webhook or a mail server
 *
 * Pure: no clock, no I/O.
 * Text from outside (the reason for a failure) is escaped in each format, so that it cannot mention users or add
 * markup.
 */
#ifndef CONTROLLER_NOTIFY_NOTICE_PAYLOAD_H
#define CONTROLLER_NOTIFY_NOTICE_PAYLOAD_H

#include <jansson.h>

#include "controller/notify/notice_message.h"

enum notice_format { NOTICE_JSON, NOTICE_SLACK, NOTICE_DISCORD, NOTICE_FEISHU, NOTICE_DINGTALK, NOTICE_FORMATS };

/* NOTICE_FORMATS: unknown word. */
enum notice_format notice_payload_format_of(const char *word);
/* By the host of the URL; json otherwise. */
enum notice_format notice_payload_format_of_url(const char *url);

/* The body to POST; NULL: no memory. docs/MONITORING.md has the keys of json. */
json_t *notice_payload(enum notice_format format, const struct notice_message *m);

/* Some services answer 200 but refuse in the body: their message (free() it), or NULL if they accepted. */
char *notice_payload_refusal(enum notice_format format, const char *answer);

/* A mail with headers, lines ended by CRLF; free() it. NULL: no memory. */
char *notice_payload_mail(const char *from, const json_t *to, const char *date, const struct notice_message *m);

#endif
