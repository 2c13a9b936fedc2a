/* SPDX-License-Identifier: Apache-2.0 */
/* log_feed.h - sends an attempt's logs to the controller's machine
 *
 * The controller keeps a copy, because the last output of ranks on a lost machine is needed most. A
 * log is bytes, a message is JSON: each byte is sent as the character of its value, and zero as
 * U+0100.
 */
#ifndef AGENT_WIRE_LOG_FEED_H
#define AGENT_WIRE_LOG_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct err;
struct log_feed;

/* Files that are sent: agent.log, setup.log, setup.node<N>.log, rank<N>.log. No other name is
 * sent or accepted. */
bool log_feed_carries(const char *file);

/* `have`: {FILE: bytes that the receiver already has}. */
int log_feed_open(struct log_feed **out, const char *run_dir, const json_t *have, struct err *err);
void log_feed_close(struct log_feed *f);    /* accepts NULL */

/* The next {file, offset, data}, owned by the caller; NULL: everything was sent. */
json_t *log_feed_next(struct log_feed *f);

/* Encodes bytes as such a text, a new string or NULL: no memory. */
json_t *log_feed_text(const char *bytes, size_t size);
/* Decodes such a text into bytes and a NUL; free() it. NULL: invalid text. */
char *log_feed_bytes(const json_t *data, size_t *size);

#endif
