/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - program log, one line per event: time, level, unit, job, text
 *
 *   2026-03-01T10:22:31.042Z info  agent 7.1 generation 2 started
 *
 * Programs log, libraries return errors: only a program's own files call this. A line is one write,
 * so two processes may share a file. Control characters in the text become \xNN: one event stays
 * one line.
 */
#ifndef AGENT_OS_LOG_H
#define AGENT_OS_LOG_H

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

/* Call this first; nothing is written before. unit: "agent" or "daemon", kept by reference. Lines below `least` are
 * dropped. The caller keeps ownership of the descriptor. */
void log_open(int fd, const char *unit, enum log_level least);

/* Filters each text through `clean`, which returns a new string, or NULL when out of memory: the line is then
 * dropped. `arg` is kept by reference; clean NULL: texts are written as they are. */
void log_filter(char *(*clean)(const void *arg, const char *text), const void *arg);

/* job: "7.1" (id.attempt), or NULL for lines that belong to no job. */
void log_write(enum log_level level, const char *job, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define log_debug(job, ...) log_write(LOG_LEVEL_DEBUG, job, __VA_ARGS__)
#define log_info(job, ...)  log_write(LOG_LEVEL_INFO, job, __VA_ARGS__)
#define log_warn(job, ...)  log_write(LOG_LEVEL_WARN, job, __VA_ARGS__)
#define log_error(job, ...) log_write(LOG_LEVEL_ERROR, job, __VA_ARGS__)

#endif
