/* SPDX-License-Identifier: Apache-2.0 */
/* crash_message.h - what a program that is not a Python script prints when it ends itself
 *
 * Pure: no clock, no I/O.
 * C++ exceptions, glibc's checks, assertions, sanitizers, Python's fault handler with the user's line, panics of Rust
 * and Go, and the messages of the shell that runs the command, with the line of the command that they refer to.
 */
#ifndef AGENT_PRINTED_CRASH_MESSAGE_H
#define AGENT_PRINTED_CRASH_MESSAGE_H

#include <stdbool.h>

#include "agent/printed/text_line.h"
#include "agent/printed/source_place.h"

enum { CRASH_TEXT = 320 };

struct crash_message {
    char text[CRASH_TEXT];      /* "std::runtime_error: boom"; "" = none */
    char place[SOURCE_PLACE];   /* the user's line where Python crashed, or "" */
    const char *at;             /* where it stands in the text */
};

/* The first message of a crash in a cleaned output. */
void crash_message_find(struct crash_message *out, const char *text);

/* The last message of a shell, "line 3: foo: command not found"; `command` is the text that it ran, or NULL. */
void crash_message_shell(struct crash_message *out, const char *text, const char *command);

#endif
