/* SPDX-License-Identifier: Apache-2.0 */
/* code_list.h - lists the files of a directory that are its code, for a snapshot, before anything is copied
 *
 * In a git repository: tracked files, and new ones that are not ignored (`git ls-files`), including submodules and
 * nested repositories; elsewhere all files that no .gitignore excludes. In both cases, .jobctlignore files, in any
 * directory, exclude more.  Always excluded: .git, jobctl's home, virtual environments (pyvenv.cfg), __pycache__, files
 * that usually contain secrets, such as .env, and what cannot be copied: FIFOs, sockets, devices, sparse files,
 * unreadable ones, links that lead outside.
 */
#ifndef CONTROLLER_CODE_CODE_LIST_H
#define CONTROLLER_CODE_CODE_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

struct code_list {
    char  **paths;      /* sorted by bytes, without duplicates, relative */
    size_t  count, room;
    json_t *left_out;   /* [{path, why: "a link that leads outside"}]; only the first of them */
    size_t  left;       /* their total number */
    int64_t bytes;
};

enum { CODE_LEFT_TOLD = 50 };

/* What to list. `hurry`: stop at once when the list gets too long or too large. */
struct code_list_wish {
    const char *dir, *home;     /* home: jobctl's, absolute */
    int64_t     max_bytes;
    bool        hurry;
};

/* Above the limits: ERR_USAGE names the largest entries seen. ERR_NOT_FOUND: no such directory. */
int code_list_make(struct code_list *l, const struct code_list_wish *wish, struct err *err);
void code_list_fini(struct code_list *l);

#endif
