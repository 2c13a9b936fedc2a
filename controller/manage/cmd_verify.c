/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_verify.c - jobctl verify-data and verify-resume: jobctl-train's checks of data and of a resume, by file or job
 *
 * jobctl-train reads the data and replays the steps; these commands find the spec and the checkpoints.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/base/program.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/submit/spec_file.h"

/* Exit codes of jobctl-train; DATA_WRONG is ours, too. */
enum { DATA_WRONG = 65, DIFFERS = 77 };

static const struct option_row data_options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set train.data.path=DIR"},
    OPTION_JSON,
    {.name = NULL},
};

static int find_spec(struct call *call, const char *what, json_t **spec, json_t **answer)
{
    const struct options *o = &call->options;
    json_t *request = NULL;
    *answer = NULL;
    *spec = NULL;
    if (spec_file_is(what)) {
        int rc = spec_file_request(call, what, o->list, o->nlist, &request, spec);
        json_decref(request);
        return rc;
    }
    if (o->nlist > 0)
        return err_set(&call->err, ERR_USAGE, "--set needs a spec file; %.80s is not a file", what);
    if (client_ask_job(answer, what, "", &call->err) < 0)
        return -1;
    *spec = json_incref(json_object_get(*answer, "spec"));
    return 0;
}

static int read_data(struct call *call, const char *path, const char *dir)
{
    const char *words[8] = {"verify-data", "--spec", path};
    int n = 3;
    if (dir && dir[0]) {
        words[n++] = "--dir";
        words[n++] = dir;
    }
    if (call->json)
        words[n++] = "--json";
    int code = program_pass("jobctl-train", words, call->out.file, &call->err);
    if (code < 0)
        return -1;
    if (code == 0 || code == DATA_WRONG)
        return code;
    return err_set(&call->err, code < 70 ? ERR_USAGE : ERR_SYSTEM,
                   "jobctl-train could not read the data; see its error above");
}

static int verify_data(struct call *call)
{
    json_t *spec, *answer;
    char path[PROGRAM_PATH];
    int rc = find_spec(call, call->options.args[0], &spec, &answer);
    if (rc == 0 && !json_is_object(json_object_get(spec, "train")))
        rc = err_set(&call->err, ERR_USAGE, "this spec has no train: block, so there is no data to "
                                            "verify");
    if (rc == 0 && (rc = program_spec_file(path, spec, &call->err)) == 0) {
        const json_t *paths = json_object_get(answer, "paths");
        rc = read_data(call, path, json_string_value(json_object_get(paths, "checkpoints")));
        unlink(path);
    }
    json_decref(spec);
    json_decref(answer);
    return rc;
}

const struct command cmd_verify_data = {
    .name = "verify-data", .where = COMMAND_THERE, .args = ARGS_FILE_OR_JOB,
    .summary = "read all training data once and report every problem",
    .help = "Lists images that cannot be read, captions that are missing, empty or too long, sizes that do not fit and "
            "numbers that are not finite. For a job, also reports whether the data changed since it started and, with "
            "data.sample_log: true, whether each epoch used every sample exactly once. The exit code is 65 if there is "
            "a problem.",
    .options = data_options, .run = verify_data,
};

/* ---- verify-resume ---- */

static const struct option_row resume_options[] = {
    {"ranks", 'n', OPTION_TEXT, "N,...", "the numbers of ranks to replay with: 1,4 (default 1,2)"},
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

static int verify_resume(struct call *call)
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
    .name = "verify-resume", .where = COMMAND_THERE, .args = ARGS_JOB,
    .summary = "replay the steps before a job's newest checkpoint with different numbers of ranks",
    .help = "Replays the steps from an earlier checkpoint to the newest one on this machine, in a scratch directory, "
            "and compares the weights with the newest checkpoint's. A job with reproducible: true must end with the "
            "same bits; any other must agree within rounding. The exit code is 1 if a replay differs.",
    .options = resume_options, .run = verify_resume,
};
