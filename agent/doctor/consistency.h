/* SPDX-License-Identifier: Apache-2.0 */
/* consistency.h - compares a job's data and the programs in its workdir between nodes
 *
 * The listing takes only a moment: number, names and sizes of the data files; contents of the programs (*.py, *.sh and
 * the like, in workdir and at most two folders below). Logs and results written there by ranks are not compared.
 *
 *   {"data":{"path":"/data/x", "files":120, "bytes":N, "digest":"16 hex", "cut":false}|null,
 *    "workdir":{"path":"/home/me/x", ..., "programs":{"train.py":[2031,"16 hex"]}}|null}
 *
 * `files` -1: the directory does not exist. `cut`: too many files, not all were listed and nothing
 * is compared. `programs` is absent if there are too many to name.
 */
#ifndef AGENT_DOCTOR_CONSISTENCY_H
#define AGENT_DOCTOR_CONSISTENCY_H

#include <jansson.h>

struct err;

/* The listing of this node for a canonical spec; a new object, or NULL: no memory. */
json_t *consistency_list(const json_t *spec);

/* Pure. -1: they differ; the sentence names both nodes and both values. */
int consistency_compare(const json_t *a, const json_t *b, const char *a_name, const char *b_name, struct err *err);

#endif
