/* SPDX-License-Identifier: Apache-2.0 */
/* code_receive.h - the host's end of a snapshot transfer: `jobctl-agent code KEY`, before an attempt's agent starts
 *
 *   controller  a line     {digest, workdir, must, here: {}, manifest_bytes}, then so many bytes: the manifest
 *   host        a line     {missing: [index of an entry, ...]}: contents that no original on the host has;
 *                          {kept: true}: the job already has its copy; {shared: true}: the host shares the workdir
 *                          itself
 *   controller             the bytes of each missing entry, in the size that the manifest gives
 *   host        a line     {made: true}
 *
 * In $XDG_STATE_HOME/jobctl (~/.local/state/jobctl):
 *   code/DIGEST/                 the original (code_tree.h); host_cache.h removes those that were not used for a week
 *   code/DIGEST.part/            one that is being received; a broken transfer is continued
 *   hosted/KEY/code/DIGEST/      the writable copy of the job, kept for all its attempts on this host; with its digest,
 *                                because a restored store may reuse a job's number
 *
 * Without `must`, the workdir itself is used if this host shares it: the directory, and the first file of the manifest
 * in it, have the same inode and ctime on this host and on the controller's machine (code_receive_look()).
 */
#ifndef AGENT_CODE_CODE_RECEIVE_H
#define AGENT_CODE_CODE_RECEIVE_H

#include <jansson.h>

struct err;

/* How this machine sees a workdir, {inode, file_inode, file_ctime_ns}: a new object, equal on two machines if they
 * share it; NULL: there is no workdir, or no file of the manifest in it. */
json_t *code_receive_look(const char *workdir, const json_t *manifest);

/* The line that shows that the command runs; the login's own output comes before it. */
#define CODE_READY "jobctl-agent code ready\n"

enum { CODE_LINE = 64 * 1024, CODE_ANSWER = 1024 * 1024, CODE_MANIFEST_BYTES = 64 * 1024 * 1024 };

int code_receive(int in, int out, const char *key, struct err *err);

#endif
