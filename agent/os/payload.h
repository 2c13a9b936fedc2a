/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - the commands a job executes: of its ranks and of its setup
 *
 * A shell text is an argument of `sh -c` up to PAYLOAD_ARGUMENT bytes.  Linux takes no argument of 128 KiB (32
 * pages), and with a small stack limit no more than that for all arguments and the environment together; so a longer
 * text is written to RUN_DIR/run.sh or RUN_DIR/setup.sh (mode 0600), and `sh` reads the file.
 */
#ifndef AGENT_OS_PAYLOAD_H
#define AGENT_OS_PAYLOAD_H

#include <jansson.h>

struct err;

enum { PAYLOAD_ARGUMENT = 64 * 1024 };

struct payload {
    const char *argv[6];       /* command of a rank */
    const char *setup_argv[4]; /* [0] NULL: no setup */
    const char *workdir;
    char        spec_path[4096];
    char        run_path[4096], setup_path[4096]; /* "": the text is an argument */
};

/* Strings point into `spec`, `train` (the path of jobctl-train) and *out. The engine's spec is
 * written to RUN_DIR/spec.json, a long shell text beside it. */
int payload_make(struct payload *out, const json_t *spec, const char *run_dir, const char *train,
                 struct err *err);

#endif
