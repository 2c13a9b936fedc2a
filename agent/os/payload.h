/* SPDX-License-Identifier: Apache-2.0 */
/* payload.h - the commands a job executes: of its ranks and of its setup */
#ifndef AGENT_OS_PAYLOAD_H
#define AGENT_OS_PAYLOAD_H

#include <jansson.h>

struct err;

struct payload {
    const char *argv[6];       /* command of a rank */
    const char *setup_argv[4]; /* [0] NULL: no setup */
    const char *workdir;
    char        spec_path[4096];
};

/* Strings point into `spec`, `train` (the path of jobctl-train) and *out. The engine's spec is
 * written to RUN_DIR/spec.json. */
int payload_make(struct payload *out, const json_t *spec, const char *run_dir, const char *train,
                 struct err *err);

#endif
