/* SPDX-License-Identifier: Apache-2.0 */
/* source_place.h - the line of the user's file, of the frames of a traceback
 *
 * Pure: no clock, no I/O.
 * Files of installed packages, of Python itself and of PyTorch are not the user's. Code without a file ("<string>" of
 * `python -c`, "<stdin>" of a here-document) is the user's if no frame is in a file of the user.
 */
#ifndef AGENT_PRINTED_SOURCE_PLACE_H
#define AGENT_PRINTED_SOURCE_PLACE_H

#include <stdbool.h>

#include "agent/printed/text_line.h"

enum { SOURCE_PLACE = 64 };

struct source_place {
    char text[SOURCE_PLACE]; /* "train.py:41"; "" = none seen */
    bool file;               /* of a file, not of "<string>" */
};

/* A frame: `File "/home/u/train.py", line 41`, followed by anything; false: not such a line. */
bool source_place_frame(struct text_line line, struct text_line *file, struct text_line *number);
/* Keeps the frame if it is the user's; later frames replace earlier ones. */
void source_place_take(struct source_place *p, struct text_line file, struct text_line number);

#endif
