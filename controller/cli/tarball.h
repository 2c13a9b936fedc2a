/* SPDX-License-Identifier: Apache-2.0 */
/* tarball.h - files into a .tar.gz (ustar), from memory
 *
 * It is written beside and renamed at the end, so that there is a whole one or none.
 */
#ifndef CONTROLLER_CLI_TARBALL_H
#define CONTROLLER_CLI_TARBALL_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tarball;

int tarball_create(struct tarball **out, const char *path, struct err *err);
/* name: at most 99 bytes, "folder/file". The first failure stays, and tarball_finish() tells it. */
void tarball_add(struct tarball *t, const char *name, const char *bytes, size_t size, int64_t time_s);
/* Frees it in any case; on failure no file is left. */
int tarball_finish(struct tarball *t, struct err *err);

#endif
