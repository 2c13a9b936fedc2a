/* SPDX-License-Identifier: Apache-2.0 */
/* command_text.h - a command line as the text of a job spec
 *
 * Pure: no clock, no I/O.
 * Several words are a command: each is quoted, so that the shell of `run:` sees exactly these words; NAME=VALUE in
 * front stays an assignment.  A single word is a shell line ("make && ./train") and is taken as is.
 */
#ifndef CONTROLLER_SUBMIT_COMMAND_TEXT_H
#define CONTROLLER_SUBMIT_COMMAND_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct err;

enum { COMMAND_AUTO = -1, COMMAND_ONE = -2 /* GPU per rank, if there is any */ };

/* Other keys of the spec than `run`. */
struct command_wish {
    const char *name;       /* NULL: command_text_name() */
    int64_t     ranks, gpus;
};

/* The shell text of the words; the caller frees it. NULL: out of memory, or a word that is not UTF-8 (ERR_USAGE). */
char *command_text_shell(const char *const *words, int count, struct err *err);

/* A spec in YAML with that `run`; the caller frees it. */
char *command_text_spec(const struct command_wish *wish, const char *const *words, int count, struct err *err);

/* The job's name: the script that an interpreter or a launcher runs, else the program, without directory and suffix. */
void command_text_name(char *out, size_t size, const char *const *words, int count);

#endif
