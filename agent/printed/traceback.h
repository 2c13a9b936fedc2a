/* SPDX-License-Identifier: Apache-2.0 */
/* traceback.h - Python tracebacks in a cleaned output, and the lines of the user's files in them
 *
 * Pure: no clock, no I/O.
 * The text before "Traceback" is the prefix of all its lines ("[rank1]: ", "  | " of an exception group, the host
 * of a launcher), so tracebacks of several ranks may be interleaved.  It also reads boxes drawn by rich, frames whose
 * head was cut off, and a SyntaxError, which has no head. Files of installed packages, of Python itself and of PyTorch
 * are not the user's. Code without a file ("<string>" of `python -c`, "<stdin>" of a here-document) is the user's if no
 * frame is in a file of the user.
 */
#ifndef AGENT_PRINTED_TRACEBACK_H
#define AGENT_PRINTED_TRACEBACK_H

#include <stdbool.h>

#include "agent/printed/text_line.h"

enum { SOURCE_PLACE = 64, TRACEBACKS = 48, TRACEBACK_PREFIX = 64, TRACEBACK_TEXT = 400 };

struct source_place {
    char text[SOURCE_PLACE]; /* "train.py:41"; "" = none seen */
    bool file;               /* in a file, not in "<string>" */
};

/* Is the line a frame, `File "/home/u/train.py", line 41`? Keeps its place if the file is the user's. */
bool traceback_frame(struct source_place *p, struct text_line line);

/* How a traceback relates to the previous one with the same prefix. */
enum traceback_link {
    TRACEBACK_ALONE,
    TRACEBACK_DURING,    /* "During handling of the above exception, another exception occurred:" */
    TRACEBACK_CAUSED,    /* "The above exception was the direct cause of the following exception:" */
    TRACEBACK_ORIGINAL,  /* "Original Traceback": it happened in a worker, and caused the previous one */
    TRACEBACK_MEMBER     /* part of an exception group */
};

struct traceback {
    enum traceback_link link;
    bool        aside;                    /* of a thread or a destructor, or only logged */
    char        prefix[TRACEBACK_PREFIX];
    struct source_place place;
    char        text[TRACEBACK_TEXT];     /* "RuntimeError: boom"; the lines of a longer message are joined by blanks */
    const char *end;                      /* in the text, after its last line */
};

/* Lists the last tracebacks of the text, oldest first; returns how many, at most TRACEBACKS. */
int traceback_find(struct traceback out[TRACEBACKS], const char *text);

/* Does its exception have one of these names (ended by NULL), in any module? */
bool traceback_is(const struct traceback *t, const char *const *names);
/* The length of the name in `text`, module included. */
size_t traceback_name(const struct traceback *t);

#endif
