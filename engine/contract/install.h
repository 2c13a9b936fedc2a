/* SPDX-License-Identifier: Apache-2.0 */
/* install.h - finds programs and libraries of this build next to this program */
#ifndef ENGINE_CONTRACT_INSTALL_H
#define ENGINE_CONTRACT_INSTALL_H

#include <stdbool.h>
#include <stddef.h>

/* The path of NAME ("jobctl-agent", "../lib/x.so") relative to this program's folder, whether or not it exists.
 * False: the path is unknown or too long; `path` is then NAME alone. */
bool install_path(char *path, size_t size, const char *name);

/* The path of a program next to this one, or else NAME alone, to be found in PATH. */
void install_find(char *path, size_t size, const char *name);

#endif
