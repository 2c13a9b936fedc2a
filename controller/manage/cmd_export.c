/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_export.c - jobctl export: the weights of a job as other programs load them
 *
 * jobctl-train writes them; this command finds the job's checkpoints.
 */
#include <jansson.h>

#include "controller/base/client.h"
#include "controller/base/program.h"
#include "controller/cli/command.h"

static const struct option_row options[] = {
    {"format", 'f', OPTION_TEXT, "NAME", "diffusers (default), authors or safetensors"},
    {"ema", 0, OPTION_FLAG, NULL, "the moving average of the weights (train.ema)"},
    {"lora", 0, OPTION_FLAG, NULL, "only the adapters (default for a job with train.lora)"},
    {"merged", 0, OPTION_FLAG, NULL, "merge the adapters into the weights that they were trained on"},
    {"with", 0, OPTION_TEXT, "FILE[:STRENGTH],...", "also merge the adapters in these files"},
    {"checkpoint", 0, OPTION_TEXT, "DIR", "export this checkpoint, not the newest one"},
    {.name = NULL},
};

static int pass(struct call *call, const char *dir)
{
    const char *words[16] = {"export", "--out", call->options.args[1]};
    static const char *const texts[][2] = {{"format", "--format"}, {"with", "--with"}};
    static const char *const flags[][2] = {{"ema", "--ema"}, {"lora", "--lora"}, {"merged", "--merged"}};
    const char *checkpoint = options_text(&call->options, "checkpoint");
    int n = 3;
    words[n++] = checkpoint ? "--checkpoint" : "--dir";
    words[n++] = checkpoint ? checkpoint : dir;
    for (int i = 0; i < 2; i++)
        if (options_text(&call->options, texts[i][0])) {
            words[n++] = texts[i][1];
            words[n++] = options_text(&call->options, texts[i][0]);
        }
    for (int i = 0; i < 3; i++)
        if (options_has(&call->options, flags[i][0]))
            words[n++] = flags[i][1];
    const int code = program_pass("jobctl-train", words, call->out.file, &call->err);
    if (code <= 0)
        return code;
    return err_set(&call->err, code < 70 ? ERR_USAGE : ERR_SYSTEM,
                   "jobctl-train could not export the weights; see its error above");
}

static int run(struct call *call)
{
    json_t *answer = NULL;
    int rc = -1;
    if (call->options.nargs != 2)
        return err_set(&call->err, ERR_USAGE, "export takes a job and a new directory: jobctl export last my-model");
    if (client_ask_job(&answer, call->options.args[0], "", &call->err) < 0)
        return -1;
    const char *dir = json_string_value(json_object_get(json_object_get(answer, "paths"), "checkpoints"));
    if (!json_is_object(json_object_get(json_object_get(answer, "spec"), "train")) || !dir)
        rc = err_set(&call->err, ERR_USAGE, "this job has no train: block, so there are no weights to export");
    else
        rc = pass(call, dir);
    json_decref(answer);
    return rc;
}

const struct command cmd_export = {
    .name = "export",
    .where = COMMAND_THERE, .args = ARGS_WORDS, .words = "JOB DIR",
    .summary = "export a job's weights for diffusers or for the authors' programs",
    .help = "Creates the directory DIR with the weights of the job's newest checkpoint and a README.md that describes "
            "the data, the steps and the loss. diffusers: a pipeline without VAE and text encoder, or "
            "pytorch_lora_weights.safetensors for adapters; authors: model.pth; safetensors: model.safetensors with "
            "the authors' tensor names. An existing DIR is refused. DIR appears only when it is complete.",
    .options = options, .run = run,
};
