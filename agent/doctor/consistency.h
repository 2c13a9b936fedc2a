/* SPDX-License-Identifier: Apache-2.0 */
/* consistency.h - what the nodes of a job must have the same of: its data, and the programs in its
 * workdir
 *
 * Listed in a moment: of the data how many files there are and of what names and sizes, of the programs
 * (*.py, *.sh and the like, in workdir and at most two folders below) what is in them.  Logs and
 * results, which ranks write there, do not count.
 *
 *   {"data":{"path":"/data/x", "files":120, "bytes":N, "digest":"16 hex", "cut":false}|null,
 *    "workdir":{"path":"/home/me/x", ..., "programs":{"train.py":[2031,"16 hex"]}}|null}
 *
 * `files` -1: there is no such directory. `cut`: there are so many that not all were looked at, and
 * nothing is said of them. `programs` is absent where there are too many to name.
 */
#ifndef AGENT_DOCTOR_CONSISTENCY_H
#define AGENT_DOCTOR_CONSISTENCY_H

#include <jansson.h>

struct err;

/* Of this node, for a canonical spec; a new object, or NULL: no memory. */
json_t *consistency_list(const json_t *spec);

/* Pure. -1: they are not the same; the sentence names both nodes and both values. */
int consistency_compare(const json_t *a, const json_t *b, const char *a_name, const char *b_name,
                        struct err *err);

#endif
