/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - log file of a rank's output, with rotation; its tail is kept as evidence
 *
 * A file that would exceed its limit is renamed to NAME.1 (replacing an older one) at the end of a
 * line, and a new one is started: at most two files exist, and the last line is always kept. NAME.base then has the
 * number of bytes written before the new file (agent/os/log_reader.h reads both as one). A full disk loses output but
 * never stops the rank: lost bytes are counted, and a line reports them once there is space.
 */
#ifndef AGENT_RANKS_CAPTURE_H
#define AGENT_RANKS_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct capture;

enum { CAPTURE_BYTES = 64 * 1024 * 1024, CAPTURE_TAIL = 8192 };

/* Opens the log and appends to it. */
int capture_open(struct capture **out, const char *path, int64_t limit, struct err *err);
void capture_close(struct capture *c);

/* Continues the log at this offset: earlier bytes are not on this node. */
void capture_begin_at(const char *path, int64_t offset);

/* What the disk refused: the number of logs that still lack output, and the bytes lost by all logs of this process. */
struct capture_losses {
    int logs;
    int64_t bytes;
};
struct capture_losses capture_losses(void);

void capture_write(struct capture *c, const char *bytes, size_t size);

/* Writes a marker on a line of its own: "--- text ---". Clears the tail. */
void capture_mark(struct capture *c, const char *text);

/* Adds a line to the tail, not to the log. */
void capture_remark(struct capture *c, const char *line);

/* The last lines since the last marker, at most CAPTURE_TAIL bytes; valid until the next call. */
const char *capture_tail(struct capture *c);

#endif
