/* SPDX-License-Identifier: Apache-2.0 */
/* run_command.h - the program that the text of `run:` starts, if it is certain
 *
 * Pure: no clock, no I/O.
 * A shell can do more than these functions parse, so both return nothing if unsure.
 */
#ifndef CONTROLLER_SPEC_RUN_COMMAND_H
#define CONTROLLER_SPEC_RUN_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first program of `text`, if the shell certainly looks it up in PATH, and the command fails without it: the text
 * is one line with one simple command or a pipeline.  "" and false for a builtin, a path, anything with an expansion in
 * its first words, an assignment to PATH, lists (;, &&, ||), groups, functions and texts of several lines. */
bool run_command_program(char *out, size_t size, const char *text);

/* A launcher that starts several processes by itself, on any line: torchrun, torch.distributed.run, accelerate launch,
 * with the option that says how many.  Returns the number, 0 if there is none, or -1 for a number that is decided
 * later (auto, gpu); name: "torchrun". */
int64_t run_command_launcher(char *name, size_t size, const char *text);

#endif
