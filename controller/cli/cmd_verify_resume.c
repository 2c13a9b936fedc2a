/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_verify_resume.c - jobctl verify-resume: replay steps with other numbers of ranks
 *
 * jobctl-train replays the steps before a job's newest checkpoint and compares; this command
 * finds the checkpoints.
 */
#include <stdio.h>

#include "controller/base/client.h"
#include "controller/base/program.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"

enum { DIFFERS = 77 }; /* exit code of jobctl-train, and ours */

static const struct option_row options[] = {
    {"ranks", 'n', OPTION_TEXT, "N,...", "numbers of ranks to replay with: 1,4 (default 1,2)"},
    {"steps", 0, OPTION_TEXT, "N", "replay at least N steps (default 1)"},
    OPTION_JSON,
    {.name = NULL},
};

static int replay(struct call *call, const char *dir)
{
    const char *words[10] = {"verify-resume", "--dir", dir};
    const char *ranks = options_text(&call->options, "ranks");
    const char *steps = options_text(&call->options, "steps");
    int n = 3;
    if (ranks) {
        words[n++] = "--ranks";
        words[n++] = ranks;
    }
    if (steps) {
        words[n++] = "--steps";
        words[n++] = steps;
    }
    if (call->json)
        words[n++] = "--json";
    int code = program_pass("jobctl-train", words, call->out.file, &call->err);
    if (code < 0)
        return -1;
    if (code == 0)
        return 0;
    if (code == DIFFERS)
        return 1;
    return err_set(&call->err, code < 70 ? ERR_USAGE : ERR_SYSTEM,
                   "jobctl-train could not replay these steps; see its error above");
}

static int run(struct call *call)
{
    json_t *answer = NULL;
    int rc = -1;
    if (client_ask_job(&answer, call->options.args[0], "", &call->err) < 0)
        return -1;
    const json_t *paths = json_object_get(answer, "paths");
    const char *dir = json_string_value(json_object_get(paths, "checkpoints"));
    if (!json_is_object(json_object_get(json_object_get(answer, "spec"), "train")) || !dir)
        rc = err_set(&call->err, ERR_USAGE, "this job has no train: block, so there are no steps "
                                            "to replay");
    else
        rc = replay(call, dir);
    json_decref(answer);
    return rc;
}

const struct command cmd_verify_resume = {
    .name = "verify-resume",
    .where = COMMAND_THERE, .args = ARGS_JOB,
    .summary = "replay the steps before a job's newest checkpoint with other numbers of ranks",
    .help = "Replays the steps from an earlier checkpoint to the newest one on this machine, in a "
            "scratch directory, and compares the weights with the newest checkpoint's. A job with "
            "reproducible: true must end with the same bits; any other must agree within "
            "rounding. The "
            "exit code is 1 if a replay differs.",
    .options = options,
    .run = run,
};
