/* SPDX-License-Identifier: Apache-2.0 */
/* failure_reason.h - why a program failed, from its output: the exception and the line in the user's file, once
 *
 * Pure: no clock, no I/O.
 * The traceback that ended the program counts: not those of threads and destructors, not a launcher's table; among
 * several ranks, the first. For chained exceptions, the last and the root are reported. A last line that mentions no
 * error is not a reason.
 */
#ifndef AGENT_PRINTED_FAILURE_REASON_H
#define AGENT_PRINTED_FAILURE_REASON_H

#include <stdbool.h>

#include "agent/printed/traceback.h"

/* A line with the main program's interpreter, which the agent appends to the output. */
#define FAILURE_INTERPRETER "--- interpreter: "

/* Code 141 of a shell with pipefail: a reader has left a pipe, and no program failed. */
#define FAILURE_PIPE "wrote into a pipe whose reader had ended (find ... | head); add `|| true` to that line"

enum { FAILURE_REASON = 440 };

enum failure_kind {
    FAILURE_SILENT,     /* it printed no reason */
    FAILURE_EXCEPTION,  /* a traceback */
    FAILURE_CRASH,      /* an abort message of C++, glibc, Rust and so on */
    FAILURE_SHELL,
    FAILURE_LAUNCHER,   /* torchrun's table: the rank itself printed nothing */
    FAILURE_LINE        /* a line that mentions an error */
};

struct failure_reason {
    enum failure_kind kind;
    char text[FAILURE_REASON];        /* "train.py:41: RuntimeError: boom (caused by data.py:7: KeyError: 'x')" */
    char place[SOURCE_PLACE];         /* "train.py:41", or "" */
    char last[TRACEBACK_TEXT];        /* the exception that ended the program, "" = none ... */
    char root[TRACEBACK_TEXT];        /* ... and its root, the same if there is no chain */
    bool interrupted;                 /* only the end requested by a signal: KeyboardInterrupt and so on */
    bool mistake;                     /* a kind that a program itself causes: TypeError, KeyError, ... */
    bool passing;                     /* a kind that may be temporary: the network, a device, a file system */
};

/* `text`: a cleaned output (text_line.h); `command`: what the shell ran, or NULL; `signalled`: it was killed. */
void failure_reason_read(struct failure_reason *out, const char *text, const char *command, bool signalled);

#endif
