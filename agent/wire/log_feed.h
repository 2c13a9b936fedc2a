/* SPDX-License-Identifier: Apache-2.0 */
/* log_feed.h - the logs of an attempt on their way to the controller's machine
 *
 * The controller keeps a copy: what the ranks of a lost machine said last is what one wants to read.
 * A log is bytes, a message is JSON: each byte goes as the character with its number, and zero as
 * U+0100.
 */
#ifndef AGENT_WIRE_LOG_FEED_H
#define AGENT_WIRE_LOG_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct log_feed;

/* Logs that travel: agent.log, setup.log, setup.node<N>.log, rank<N>.log. No other name is ever sent or taken. */
bool log_feed_carries(const char *file);

/* `have`: {FILE: bytes that the other side has}. */
int log_feed_open(struct log_feed **out, const char *run_dir, const json_t *have, struct err *err);
void log_feed_close(struct log_feed *f);    /* accepts NULL */

/* The next {file, offset, data}, the caller's; NULL: all is sent. */
json_t *log_feed_next(struct log_feed *f);

/* Any bytes as such a text, a new string or NULL: no memory. */
json_t *log_feed_text(const char *bytes, size_t size);
/* The bytes of such a text and a NUL, for free(); NULL when it is none of ours. */
char *log_feed_bytes(const json_t *data, size_t *size);

#endif
