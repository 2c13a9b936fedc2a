/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_train.c - jobctl-train train: run a job spec, under an agent or by hand */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/progress.h"
#include "engine/train/train.h"
#include "engine/train/train_env.h"

int train_cmd_train(int argc, char **argv)
{
    const char *file = NULL, *backend = NULL, *until = NULL;
    const struct train_cmd_option options[] = {
        {.name = "--spec", .value = &file, .required = true},
        {.name = "--backend", .value = &backend},
        {.name = "--until", .value = &until},
        {.name = NULL},
    };
    struct progress *progress = NULL;
    struct train_env env;
    struct err err = {0};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    json_t *job = NULL;
    if (progress_open(&progress, &err) == 0 && train_env_read(&env, &err) == 0)
        job = train_cmd_load_spec(file, &err);
    if (err.code == ERR_NONE) {
        if (backend)
            env.backend = backend;
        env.until = until ? strtoll(until, NULL, 10) : 0;
        rc = train_run(job, &env, progress);
    } else {
        rc = train_cmd_fail("train", &err);
        const char *cause = rc == EXIT_IO ? "io_error" : rc == EXIT_LIMIT ? "resource_limit" : "config_error";
        if (progress)
            progress_failed(progress, cause, rc, err.text, -1);
    }
    json_decref(job);
    progress_close(progress);
    return rc;
}
