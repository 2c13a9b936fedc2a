/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_fetch.c - jobctl fetch: download models from a Hugging Face hub into this machine's cache
 *
 * jobctl-fetch downloads (agent/fetch); this command determines which models: those named, or those in a spec.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "controller/base/program.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "controller/submit/spec_file.h"
#include "engine/base/buf.h"
#include "engine/contract/exit_code.h"
#include "engine/hub/hub_name.h"
#include "engine/hub/hub_spec.h"

enum { WORDS = 13 }; /* as many as program_run() takes */

static const struct option_row options[] = {
    {"check", 0, OPTION_FLAG, NULL, "list what is in the cache and what is missing; download nothing"},
    {"part", 0, OPTION_TEXT, "PART,...", "only these folders of a pipeline: transformer, vae, text_encoder, tokenizer"},
    {"set", 's', OPTION_LIST, "KEY=VALUE", "change a key of the spec: --set train.model.weights=hf://OWNER/REPO"},
    OPTION_JSON,
    {.name = NULL},
};

static int run_program(struct call *call, const char *const *words, int n)
{
    const char *argv[WORDS + 6] = {NULL};
    struct buf out = {0};
    int k = 0;
    if (options_has(&call->options, "check"))
        argv[k++] = "--check";
    if (call->json)
        argv[k++] = "--json";
    for (int i = 0; i < n; i++)
        argv[k++] = words[i];
    const int code = program_run("jobctl-fetch", argv, &out, &call->err);
    json_t *answer = call->json && code == 0 ? json_loadb(out.data ? out.data : "", out.size, 0, NULL) : NULL;
    if (answer)
        output_json(call, answer);
    else if (code == 0 && out.size)
        fwrite(out.data, 1, out.size, call->out.file);
    buf_fini(&out);
    return code <= 0 ? code : err_exit_code(code == EXIT_CONFIG ? ERR_USAGE : ERR_SYSTEM); /* it has said why */
}

/* As its ranks have them: where the cache is, and the address of the hub. */
static void take_environment(const json_t *spec)
{
    const char *name;
    json_t *value;
    json_object_foreach (json_object_get(spec, "env"), name, value)
        if (json_is_string(value))
            setenv(name, json_string_value(value), 1);
}

static int fetch_spec(struct call *call, const char *file)
{
    const struct options *o = &call->options;
    struct hub_spec_name names[HUB_SPEC_NAMES];
    char path[PROGRAM_PATH];
    json_t *request = NULL, *spec = NULL;
    int rc = spec_file_request(call, file, o->list, o->nlist, &request, &spec);
    if (rc == 0 && hub_spec_names(names, spec) == 0)
        rc = err_set(&call->err, ERR_USAGE, "no key of %.200s names a model on a hub, such as train.model.weights: "
                     "hf://OWNER/REPO", file);
    if (rc == 0 && (rc = program_spec_file(path, spec, &call->err)) == 0) {
        take_environment(spec);
        rc = run_program(call, (const char *const[]){"--spec", path}, 2);
        unlink(path);
    }
    json_decref(request);
    json_decref(spec);
    return rc;
}

static int run(struct call *call)
{
    const struct options *o = &call->options;
    const char *words[WORDS], *part = options_text(o, "part");
    int n = 0;
    if (o->nargs == 1 && !hub_name_is(o->args[0]) && (access(o->args[0], F_OK) == 0 || strcmp(o->args[0], "-") == 0))
        return fetch_spec(call, o->args[0]);
    if (o->nlist > 0)
        return err_set(&call->err, ERR_USAGE, "--set needs a spec file; %.80s is not a file", o->args[0]);
    for (int i = 0; i < o->nargs; i++)
        if (!hub_name_is(o->args[i]))
            return err_set(&call->err, ERR_USAGE, o->nargs > 1 ? "%.200s is not the name of a model on a hub; a spec "
                           "file must be the only argument"
                           : "%.200s is neither a file nor the name of a model on a hub, such as hf://OWNER/REPO",
                           o->args[i]);
    if (o->nargs > WORDS - 3)
        return err_set(&call->err, ERR_USAGE, "at most %d names per command", WORDS - 3);
    if (part) {
        words[n++] = "--part";
        words[n++] = part;
    }
    for (int i = 0; i < o->nargs; i++)
        words[n++] = o->args[i];
    return run_program(call, words, n);
}

const struct command cmd_fetch = {
    .name = "fetch", .where = COMMAND_THERE, .args = ARGS_FILES, .words = "FILE|hf://OWNER/REPO[@REV][/FILE]...",
    .summary = "download models from a Hugging Face hub into this machine's cache",
    .help = "Downloads the models that the spec FILE names, or the models named as arguments, into the cache that all "
            "Hugging Face programs share (HF_HOME, HF_HUB_CACHE), and prints their paths. Use it on a login node when "
            "a job's nodes see its cache but have no network. Elsewhere a job downloads its models itself, before its "
            "ranks start. An interrupted download resumes where it stopped, and each file's digest is checked. Of a "
            "repository's weights only one format is downloaded, with configuration and tokenizer. Repositories with "
            "restricted access need HF_TOKEN or the token of `hf auth login`. HF_ENDPOINT is the hub's address.",
    .options = options, .run = run,
};
