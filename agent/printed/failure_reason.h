/* SPDX-License-Identifier: Apache-2.0 */
/* failure_reason.h - why a program failed, in its own words: the exception and the line of the user's file, once
 *
 * Pure: no clock, no I/O.
 * Of the tracebacks in an output, the one that ended the program counts: not those of threads and destructors, not the
 * table of a launcher, and of several ranks the first. Of chained exceptions the last and the root are reported. A last
 * line without a word of trouble is not a reason.
 */
#ifndef AGENT_PRINTED_FAILURE_REASON_H
#define AGENT_PRINTED_FAILURE_REASON_H

#include <stdbool.h>

#include "agent/printed/traceback.h"

/* A line with the interpreter of the main program, which the agent adds behind the output. */
#define FAILURE_INTERPRETER "--- interpreter: "

enum { FAILURE_REASON = 440 };

enum failure_kind {
    FAILURE_SILENT,     /* it printed no reason */
    FAILURE_EXCEPTION,  /* a traceback */
    FAILURE_CRASH,      /* of C++, glibc, Rust and so on */
    FAILURE_SHELL,
    FAILURE_LAUNCHER,   /* torchrun's table: the rank itself has printed nothing */
    FAILURE_LINE        /* a line with a word of trouble */
};

struct failure_reason {
    enum failure_kind kind;
    char text[FAILURE_REASON];        /* "train.py:41: RuntimeError: boom (caused by data.py:7: KeyError: 'x')" */
    char place[SOURCE_PLACE];         /* "train.py:41", or "" */
    char last[TRACEBACK_TEXT];        /* the exception that ended it, "" = none ... */
    char root[TRACEBACK_TEXT];        /* ... and the one that began it, the same where there is no chain */
    bool interrupted;                 /* only the end that a signal requested: KeyboardInterrupt and so on */
    bool mistake;                     /* of a kind that a program makes itself: TypeError, KeyError, ... */
    bool passing;                     /* of a kind that may be temporary: the network, a device, a file system */
};

/* `text`: a cleaned output (text_line.h); `command`: what the shell ran, or NULL; `signalled`: it was killed. */
void failure_reason_read(struct failure_reason *out, const char *text, const char *command, bool signalled);

#endif
