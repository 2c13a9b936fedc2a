/* SPDX-License-Identifier: Apache-2.0 */
/* mapped_file.h - a regular file that the user names, mapped for reading
 *
 * The bytes are those of the file for as long as it is not truncated: a file that another program cuts short while it
 * is mapped ends this process by SIGBUS, as with every mapping.
 */
#ifndef ENGINE_FILES_MAPPED_FILE_H
#define ENGINE_FILES_MAPPED_FILE_H

#include <stddef.h>

struct err;

struct mapped_file {
    const unsigned char *bytes;
    size_t               size; /* at least 1 */
};

/* Links are followed. ERR_SYSTEM: it cannot be opened; ERR_DATA: it is empty. */
int mapped_file_open(struct mapped_file *out, const char *path, struct err *err);
/* Accepts a zeroed struct. */
void mapped_file_close(struct mapped_file *f);

#endif
