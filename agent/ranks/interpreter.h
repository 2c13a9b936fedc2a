/* SPDX-License-Identifier: Apache-2.0 */
/* interpreter.h - the Python that a command runs, as its user would name it: /home/u/venv/bin/python3 */
#ifndef AGENT_RANKS_INTERPRETER_H
#define AGENT_RANKS_INTERPRETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of the main program of a command that runs (main_program.h), by its command line and PATH; "" = no Python. */
void interpreter_look(char *out, size_t size, int64_t root);

/* What `argv` will most likely run with this environment; "" = the command changes the environment, or runs none. */
void interpreter_guess(char *out, size_t size, const char *const *argv, char *const *env);

#endif
