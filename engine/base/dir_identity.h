/* SPDX-License-Identifier: Apache-2.0 */
/* dir_identity.h - a directory by inode: whether its path still leads to it, and where it is now
 *
 * A process that works in a directory by path must notice that the directory was removed, renamed or
 * replaced: otherwise it writes into a directory of another process. It holds a descriptor, checks once a second, and
 * stops when the directory is gone.
 *
 * A directory counts as gone when two consecutive checks find another inode, or nothing, at its path: one that is moved
 * away and back between two checks is still the same. Where inode numbers may change (NFS, FUSE), they are compared
 * with those that the open descriptor has now; an error that says nothing about the directory (EIO, EACCES, a server
 * that does not answer) does not count.
 */
#ifndef ENGINE_BASE_DIR_IDENTITY_H
#define ENGINE_BASE_DIR_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

struct dir_identity {
    int   fd;       /* O_PATH: not for reading; closed on exec */
    dev_t dev;      /* as opened */
    ino_t ino;
    int   misses;   /* consecutive checks at which the path led elsewhere */
};

/* Closing one that was never opened is allowed. */
#define DIR_IDENTITY_NONE ((struct dir_identity){.fd = -1})

/* ERR_SYSTEM: no such directory. */
int dir_identity_open(struct dir_identity *d, const char *path, struct err *err);
void dir_identity_close(struct dir_identity *d);

/* Does the path lead to it now? True if uncertain. */
bool dir_identity_here(const struct dir_identity *d, const char *path);

/* One check, made at each beat: true once the directory is gone from its path. */
bool dir_identity_gone(struct dir_identity *d, const char *path);

/* The absolute path that it has now; -1: it was removed, or its place is unknown. */
int dir_identity_path(char *out, size_t size, const struct dir_identity *d);

/* Where it is, as the end of a sentence: "was moved to /b", "was removed". */
void dir_identity_text(char *out, size_t size, const struct dir_identity *d, const char *path);

#endif
