/* SPDX-License-Identifier: Apache-2.0 */
/* hub_name.h - the name of a model on a Hugging Face hub: hf://OWNER/REPO[@REV][/FILE]
 *
 * REV is a branch, a tag or a commit, "main" if there is none; a slash in it is written as %2F, except in refs/pr/N
 * and refs/convert/NAME.  FILE is a file or a folder of the repository; without it, the name means the whole
 * repository.
 *
 * Pure: no clock, no I/O.
 */
#ifndef ENGINE_HUB_HUB_NAME_H
#define ENGINE_HUB_HUB_NAME_H

#include <stdbool.h>

struct err;

enum { HUB_NAME_TEXT = 1024, HUB_COMMIT = 41 };

struct hub_name {
    char owner[100], repo[100];
    char revision[200];
    char file[500]; /* "": the whole repository */
};

/* Is it "hf://..." rather than a path? */
bool hub_name_is(const char *text);
/* ERR_USAGE, with the expected form. */
int hub_name_parse(struct hub_name *out, const char *text, struct err *err);
/* Prints the name; `revision` NULL: the name's revision. */
void hub_name_text(char text[HUB_NAME_TEXT], const struct hub_name *n, const char *revision);
/* Is it 40 hexadecimal digits: a commit, which never changes? */
bool hub_name_is_commit(const char *revision);
/* Is it a relative path that stays below its start? */
bool hub_name_is_path(const char *path);

#endif
