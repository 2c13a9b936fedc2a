/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.h - the Python interpreter that a command runs, by the path that the user knows:
 * /home/u/venv/bin/python3 */
#ifndef AGENT_RANKS_INTERPRETER_H
#define AGENT_RANKS_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For the main program of a running command (main_program.h), by its command line and PATH; "" = no Python. */
void interpreter_look(char *out, size_t size, int64_t root);

/* The one that `argv` most likely runs in this environment; "" = the command changes the environment, or runs no
 * Python. */
void interpreter_guess(char *out, size_t size, const char *const *argv, char *const *env);

#endif
