/* SPDX-License-Identifier: Apache-2.0 */
/* code_manifest.h - the list of files of a snapshot of a job's code, and its digest
 *
 * Pure: no clock, no I/O.
 *
 *   {"version": 1, "files": [["run.sh", "program", 120, "xxh3:..."], ["src/a.py", "file", 7, "xxh3:..."],
 *                            ["src/b.py", "link", 0, "a.py"]]}
 *
 * Sorted by path, in bytes.  Paths are relative to the snapshot's directory, "/" between their parts; a link must lead
 * to a place inside it.  Directories follow from the files; empty ones are not recorded. Of the mode, only the
 * executable bit is kept. Two snapshots are equal if their digests are equal.
 */
#ifndef AGENT_CODE_CODE_MANIFEST_H
#define AGENT_CODE_CODE_MANIFEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/digest.h"

struct err;

enum { CODE_PATH = 1024, CODE_FILES_MAX = 50000 };

enum code_kind { CODE_FILE, CODE_PROGRAM, CODE_LINK };

struct code_entry {
    const char    *path;
    enum code_kind kind;
    int64_t        bytes;
    const char    *text;    /* a file: digest of the content; a link: its target */
};

/* A new, empty one. */
json_t *code_manifest_create(void);

/* Appends an entry; the caller appends in sorted order. -1: out of memory, or a text is not UTF-8. */
int code_manifest_add(json_t *manifest, const struct code_entry *entry);

size_t code_manifest_count(const json_t *manifest);
int64_t code_manifest_bytes(const json_t *manifest);

/* Texts are borrowed from the manifest, which code_manifest_check() has accepted or this side has made. */
struct code_entry code_manifest_at(const json_t *manifest, size_t i);

/* ERR_DATA: not a manifest, or one of its paths leads out of the directory, goes through a link, or occurs twice. */
int code_manifest_check(const json_t *manifest, struct err *err);

/* The digest of all entries, 32 hexadecimal digits; -1: out of memory. */
enum { CODE_DIGEST = 33 };
int code_manifest_digest(char out[CODE_DIGEST], const json_t *manifest, struct err *err);
bool code_digest_ok(const char *digest);

/* A relative path whose parts are names, without "." and "..". */
bool code_path_ok(const char *path);

/* Does the link `path` with this target stay inside the directory, whether or not the target exists? */
bool code_link_inside(const char *path, const char *target);

#endif
