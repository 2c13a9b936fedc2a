/* SPDX-License-Identifier: Apache-2.0 */
/* code_list.h - which files of a directory are its code: the list of a snapshot, before anything is copied
 *
 * In a git repository: those that git has, and new ones that it does not ignore (`git ls-files`), in submodules and
 * repositories below as well; elsewhere all that no .gitignore leaves out.  In both .jobctlignore files, in any
 * directory, leave out more.  Always left out: what a repository keeps about itself (.git), the home of jobctl, virtual
 * environments (pyvenv.cfg), __pycache__, files that usually hold secrets (code_list_secret()), and what cannot be
 * copied: FIFOs, sockets, devices, sparse files, unreadable ones, links that lead outside.
 */
#ifndef CONTROLLER_CODE_CODE_LIST_H
#define CONTROLLER_CODE_CODE_LIST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

struct code_list {
    char  **paths;      /* sorted by bytes, each once, relative */
    size_t  count, room;
    json_t *left_out;   /* [{path, why: "a link that leads outside"}]; the first of them */
    size_t  left;       /* how many there are */
    int64_t bytes;
};

enum { CODE_LEFT_TOLD = 50 };

/* What is to be listed. `hurry`: a list that gets too long or too large ends at once. */
struct code_list_wish {
    const char *dir, *home;     /* home: of jobctl, absolute */
    int64_t     max_bytes;
    bool        hurry;
};

/* The limits: ERR_USAGE names the largest entries, of those that were seen. ERR_NOT_FOUND: no such directory. */
int code_list_make(struct code_list *l, const struct code_list_wish *wish, struct err *err);
void code_list_fini(struct code_list *l);

/* A name such as .env, id_rsa or server.key. Pure. */
bool code_list_secret(const char *name);

#endif
