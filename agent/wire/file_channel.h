/* SPDX-License-Identifier: Apache-2.0 */
/* file_channel.h - a byte stream between two machines that share nothing but a directory
 *
 * Often a cluster's nodes and its login machine cannot connect to each other, and every user could reach a listener
 * there. Both see the attempt's directory, of mode 0700, so controller and agent exchange files in it:
 *
 *   RUN_DIR/mail.down   controller to agent; written by the controller's side only
 *   RUN_DIR/mail.up     agent to controller
 *
 * A file is a header (magic, number of the connection, length, closed) and the bytes. The
 * controller begins a connection with a mail.down of a new number, the agent answers with a mail.up
 * of the same number. Both are written under another name and renamed; `length` is updated once the
 * bytes are on disk, and a reader opens the file again for each look, so even a network file system
 * never shows it partial data. A file never grows much beyond FILE_CHANNEL_LIMIT: then the
 * controller's side ends the connection, and the next one starts empty. Neither side waits for the
 * other: the caller rebuilds a stream that breaks (agent/wire/wire.h repeats unacknowledged
 * messages).
 */
#ifndef AGENT_WIRE_FILE_CHANNEL_H
#define AGENT_WIRE_FILE_CHANNEL_H

struct err;
struct file_channel;

enum { FILE_CHANNEL_LIMIT = 4 * 1024 * 1024 };

/* The controller's side: connects, and copies data between the socket `fd` and the files until
 * either end closes. -1 if no answer comes within wait_ms, or a file cannot be written. */
int file_channel_call(const char *run_dir, int fd, int wait_ms, struct err *err);

/* The agent's side: a thread that answers each call with a connection to the agent's own socket. */
int file_channel_open(struct file_channel **out, const char *run_dir, const char *socket, struct err *err);

/* Data already written by the agent is still sent. Accepts NULL. */
void file_channel_close(struct file_channel *m);

#endif
