/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - the commands that a job executes: its ranks, its setup, and the download of its models
 *
 * A shell text runs in `bash -e -o pipefail` if bash exists, else in `sh -e`: the first command that fails ends it. Up
 * to PAYLOAD_ARGUMENT bytes it is an argument of `-c`. Linux rejects an argument of 128 KiB (32 pages), and with a
 * small stack limit the same total for all arguments and the environment; so a longer text is written to RUN_DIR/run.sh
 * or RUN_DIR/setup.sh (mode 0600), and the shell reads the file. In a container, the image's shells are used, and its
 * sh looks for bash.
 */
#ifndef AGENT_OS_PAYLOAD_H
#define AGENT_OS_PAYLOAD_H

#include <jansson.h>

struct err;

enum { PAYLOAD_ARGUMENT = 64 * 1024, PAYLOAD_WORDS = 8, PAYLOAD_TRAPPED = 8 * 1024 };

struct payload {
    const char *argv[PAYLOAD_WORDS];       /* command of a rank */
    const char *setup_argv[PAYLOAD_WORDS]; /* [0] NULL: no setup */
    const char *fetch_argv[PAYLOAD_WORDS]; /* downloads the models on a hub that the spec names; [0] NULL: none */
    char        fetch_path[4096];
    const char *workdir;
    char        spec_path[4096]; /* path of spec.json; "": nobody reads it */
    char        run_path[4096], setup_path[4096]; /* "": the text is passed as an argument */
    char        run_text[PAYLOAD_TRAPPED], setup_text[PAYLOAD_TRAPPED]; /* with a trap (agent/os/shell_trap.h), or "" */
};

/* Strings point into `spec`, `train` (the path of jobctl-train) and *out. The spec is written to RUN_DIR/spec.json if
 * the engine or a download reads it, a long shell text beside it. */
int payload_make(struct payload *out, const json_t *spec, const char *run_dir, const char *train, struct err *err);

/* Before the processes of another generation start: rewrites files that have changed on disk since. */
int payload_renew(const struct payload *p, const json_t *spec, struct err *err);

/* The same for a container. */
void payload_shell_inside(const char *argv[PAYLOAD_WORDS], const char *text, const char *path);

/* argv for a shell text, or for the file `path` if `text` is NULL. `bash`: its path, or NULL: none. */
void payload_shell(const char *argv[PAYLOAD_WORDS], const char *bash, const char *text, const char *path);

#endif
