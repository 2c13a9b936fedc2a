/* SPDX-License-Identifier: Apache-2.0 */
/* file_channel.h - a stream of bytes between two machines that share a directory and nothing else
 *
 * The nodes of a cluster and the machine at which one logs in often cannot open a connection to
 * each other, and what listens there can be reached by everybody.  Both see the attempt's
 * directory, which is of mode 0700; so controller and agent write each other files in it:
 *
 *   RUN_DIR/mail.down   what the controller says, written by its side alone
 *   RUN_DIR/mail.up     what the agent says
 *
 * A file is a header (magic, number of the connection, length, closed) and the bytes.  The
 * controller begins a connection by a mail.down with a new number, the agent answers with a mail.up
 * of the same one.  Both begin under another name and are renamed; `length` grows when the bytes
 * are on disk, and a reader opens the file anew for each look: so a network file system, too, shows
 * it nothing that is not whole.  A file never grows much over FILE_CHANNEL_LIMIT: then the
 * controller's side ends the connection, and the next one begins anew.  Nobody waits for the other
 * side: a stream that breaks is rebuilt by who called (agent/wire/wire.h repeats what was not
 * acknowledged).
 */
#ifndef AGENT_WIRE_FILE_CHANNEL_H
#define AGENT_WIRE_FILE_CHANNEL_H

struct err;
struct file_channel;

enum { FILE_CHANNEL_LIMIT = 4 * 1024 * 1024 };

/* The controller's side: call, and carry what goes through the socket `fd` both ways until either
 * end closes.  -1 when nobody answers within wait_ms, or a file cannot be written. */
int file_channel_call(const char *run_dir, int fd, int wait_ms, struct err *err);

/* The agent's side: a thread that answers each call by a connection to the agent's own socket. */
int file_channel_open(struct file_channel **out, const char *run_dir, const char *socket,
                      struct err *err);

/* What the agent has said still goes out. Accepts NULL. */
void file_channel_close(struct file_channel *m);

#endif
