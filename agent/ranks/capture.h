/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h - the output of a rank: to a file for people, its tail kept as evidence
 *
 * A file that would outgrow its limit is renamed to NAME.1 (replacing an older
 * one) at the end of a line, and a new one is begun: at most two files, and
 * never without the last line.  NAME.base then says how many bytes were written
 * before the new one (agent/os/log_reader.h reads all of it).  A full disk loses output, never the
 * rank: what could not be written is counted and said once there is room.
 */
#ifndef AGENT_RANKS_CAPTURE_H
#define AGENT_RANKS_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct capture;

enum { CAPTURE_BYTES = 64 * 1024 * 1024, CAPTURE_TAIL = 8192 };

/* Appends to what is there. */
int capture_open(struct capture **out, const char *path, int64_t limit, struct err *err);
void capture_close(struct capture *c);

/* The log goes on at this offset: what lay before it is not there, and will not be. */
void capture_begin_at(const char *path, int64_t offset);

void capture_write(struct capture *c, const char *bytes, size_t size);

/* A line of ours, on a line of its own: "--- text ---". Clears the tail. */
void capture_mark(struct capture *c, const char *text);

/* The last lines since the last mark, at most CAPTURE_TAIL bytes; valid until the next call. */
const char *capture_tail(struct capture *c);

#endif
