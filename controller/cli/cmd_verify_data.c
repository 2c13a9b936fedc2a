/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_verify_data.c - jobctl verify-data: check training data, and which samples a job used
 *
 * jobctl-train reads and counts the data; this command resolves its argument: a spec file,
 * or a job with its spec and checkpoint directory.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/client.h"
#include "controller/base/program.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/cli/spec_file.h"

enum { DATA_WRONG = 65 }; /* exit code of jobctl-train, and ours */

static const struct option_row options[] = {
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
    if (strcmp(what, "-") == 0 || access(what, F_OK) == 0) {
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

static int verify(struct call *call, const char *path, const char *dir)
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

static int run(struct call *call)
{
    json_t *spec, *answer;
    char path[PROGRAM_PATH];
    int rc = find_spec(call, call->options.args[0], &spec, &answer);
    if (rc == 0 && !json_is_object(json_object_get(spec, "train")))
        rc = err_set(&call->err, ERR_USAGE, "this spec has no train: block, so there is no data to "
                                            "verify");
    if (rc == 0 && (rc = program_spec_file(path, spec, &call->err)) == 0) {
        const json_t *paths = json_object_get(answer, "paths");
        rc = verify(call, path, json_string_value(json_object_get(paths, "checkpoints")));
        unlink(path);
    }
    json_decref(spec);
    json_decref(answer);
    return rc;
}

const struct command cmd_verify_data = {
    .name = "verify-data", .where = COMMAND_THERE, .args = ARGS_FILE_OR_JOB,
    .summary = "read all training data once and report every problem",
    .help = "Lists images that cannot be read, captions that are missing, empty or too long, "
            "sizes that do not fit and numbers that are not finite. For a job, also reports "
            "whether "
            "the data changed since it started and, with data.sample_log: true, whether each epoch "
            "used every sample exactly once. The exit code is 65 if there is a problem.",
    .options = options, .run = run,
};
