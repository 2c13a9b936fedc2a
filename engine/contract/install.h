/* SPDX-License-Identifier: Apache-2.0 */
/* install.h - where the programs and libraries of this build are: beside this program */
#ifndef ENGINE_CONTRACT_INSTALL_H
#define ENGINE_CONTRACT_INSTALL_H

#include <stdbool.h>
#include <stddef.h>

/* The path of NAME ("jobctl-agent", "../lib/x.so") seen from the folder of this program, whether or
 * not it exists.  False: the path is unknown or too long; `path` is then NAME alone. */
bool install_path(char *path, size_t size, const char *name);

/* The path of a program beside this one, else NAME alone, to be found in PATH. */
void install_find(char *path, size_t size, const char *name);

#endif
