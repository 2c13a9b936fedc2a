/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_render.c - jobctl render: print the batch script of a job with launch: slurm */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "controller/base/home.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/remote/remote.h"
#include "controller/remote/sbatch.h"
#include "controller/submit/spec_file.h"
#include "engine/base/json_make.h"
#include "engine/contract/install.h"

static const struct option_row options[] = {
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set slurm.partition=gpu"},
    OPTION_JSON,
    {.name = NULL},
};

static int show(struct call *call, const json_t *spec)
{
    char home[PATH_MAX], dir[PATH_MAX + 16], agent[PATH_MAX];
    if (remote_of_spec(spec) != &remote_slurm)
        return err_set(&call->err, ERR_USAGE, "only jobs with launch: slurm have a batch script");
    if (home_dir(home, sizeof(home), &call->err) < 0)
        return -1;
    snprintf(dir, sizeof(dir), "%s/jobs/0/1", home);
    install_path(agent, sizeof(agent), "jobctl-agent");
    const struct sbatch s = { .spec = spec, .attempt = 1, .nonce = "0", .run_dir = dir,
                              .agent = agent };
    char *script = sbatch_render(&s, &call->err);
    if (!script)
        return -1;
    if (call->json)
        output_json(call, json_make("{s:s}", "script", script));
    else
        fputs(script, call->out.file);
    free(script);
    return 0;
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    json_t *request = NULL, *spec = NULL;
    int rc = spec_file_request(call, o->args[0], o->list, o->nlist, &request, &spec);
    if (rc == 0)
        rc = show(call, spec);
    json_decref(request);
    json_decref(spec);
    return rc;
}

const struct command cmd_render = {
    .name = "render", .group = GROUP_HIDDEN, .where = COMMAND_THERE, .args = ARGS_FILE,
    .summary = "print the batch script of a job with launch: slurm",
    .help = "Prints the script as submit would give it to Slurm, with job number 0 and attempt 1 as placeholders. "
            "Nothing is submitted.",
    .options = options, .run = run,
};
