/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - the commands a job executes: of its ranks, of its setup, and for the download of its models
 *
 * A shell text runs in `bash -e -o pipefail` where there is bash, else in `sh -e`: the first command that fails ends
 * it. It is an argument of `-c` up to PAYLOAD_ARGUMENT bytes.  Linux takes no argument of 128 KiB (32 pages), and with
 * a small stack limit no more than that for all arguments and the environment together; so a longer text is written
 * to RUN_DIR/run.sh or RUN_DIR/setup.sh (mode 0600), and the shell reads the file.
 * In a container the shells are those of the image, and a shell of the image looks for bash.
 */
#ifndef AGENT_OS_PAYLOAD_H
#define AGENT_OS_PAYLOAD_H

#include <jansson.h>

struct err;

enum { PAYLOAD_ARGUMENT = 64 * 1024, PAYLOAD_WORDS = 8 };

struct payload {
    const char *argv[PAYLOAD_WORDS];       /* command of a rank */
    const char *setup_argv[PAYLOAD_WORDS]; /* [0] NULL: no setup */
    const char *fetch_argv[PAYLOAD_WORDS]; /* downloads the models that the spec names on a hub; [0] NULL: none */
    char        fetch_path[4096];
    const char *workdir;
    char        spec_path[4096]; /* "": nobody reads it */
    char        run_path[4096], setup_path[4096]; /* "": the text is an argument */
};

/* Strings point into `spec`, `train` (the path of jobctl-train) and *out. The spec is
 * written to RUN_DIR/spec.json where the engine or a download reads it, a long shell text beside it. */
int payload_make(struct payload *out, const json_t *spec, const char *run_dir, const char *train, struct err *err);

/* Before the processes of another generation start: writes again what has changed on disk since. */
int payload_renew(const struct payload *p, const json_t *spec, struct err *err);

/* The same in a container. */
void payload_shell_inside(const char *argv[PAYLOAD_WORDS], const char *text, const char *path);

/* argv of a shell text, or if `text` is NULL of the file `path`. `bash`: its path, or NULL: there is none. */
void payload_shell(const char *argv[PAYLOAD_WORDS], const char *bash, const char *text, const char *path);

#endif
