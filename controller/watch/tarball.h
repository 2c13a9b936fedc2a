/* SPDX-License-Identifier: Apache-2.0 */
/* tarball.h - writes files from memory into a .tar.gz (ustar), by libarchive
 *
 * The archive is written to a temporary file and renamed at the end, so it is complete or absent.
 */
#ifndef CONTROLLER_WATCH_TARBALL_H
#define CONTROLLER_WATCH_TARBALL_H

#include <stddef.h>
#include <stdint.h>

struct err;
struct tarball;

int tarball_create(struct tarball **out, const char *path, struct err *err);
/* name: "folder/file". The first failure is kept; tarball_finish() returns it. */
void tarball_add(struct tarball *t, const char *name, const char *bytes, size_t size, int64_t time_s);
/* Frees the tarball in any case; on failure no file is left. */
int tarball_finish(struct tarball *t, struct err *err);

#endif
