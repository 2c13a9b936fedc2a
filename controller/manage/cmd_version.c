/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version.c - jobctl version: the versions of this program and of the running daemon */
#include <stdio.h>
#include <string.h>

#include "controller/base/client.h"
#include "controller/base/program.h"
#include "controller/cli/command.h"
#include "controller/cli/output.h"
#include "engine/base/json_make.h"

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

static const struct option_row options[] = {
    OPTION_JSON,
    {.name = "verbose", .letter = 'v', .help = "also print the processor and the engine's kernels"},
    {.name = NULL},
};

/* `jobctl-train version` prints the processor and the selected kernels below its version. */
static int print_engine(struct call *call)
{
    const char *const words[] = {"version", "-v", NULL};
    const int code = program_pass("jobctl-train", words, call->out.file, &call->err);
    return call->err.code == ERR_NONE ? code : -1;
}

static int run(struct call *call)
{
    struct client *c = NULL;
    json_t *daemon = NULL;
    struct err none = {0};
    if (client_open(&c, false, &none) == 0 && client_get(c, &daemon, &none, "/v1/version") == 0)
        json_object_del(daemon, "schema");
    client_close(c);
    if (call->json) {
        output_json(call, json_make("{s:s, s:s, s:s, s:s, s:o}", "version", JOBCTL_VERSION, "commit",
                                    call->build->commit, "date", call->build->date, "compiler", COMPILER,
                                    "daemon", daemon ? daemon : json_null()));
        return 0;
    }
    fprintf(call->out.file, "jobctl %s\n", JOBCTL_VERSION);
    fprintf(call->out.file, "commit %s of %s, built with %s\n",
            call->build->commit[0] ? call->build->commit : "unknown", call->build->date, COMPILER);
    const char *theirs = json_string_value(json_object_get(daemon, "version"));
    if (theirs)
        fprintf(call->out.file, "daemon %s, pid %lld\n", theirs,
                (long long)json_integer_value(json_object_get(daemon, "pid")));
    else
        fprintf(call->out.file, "daemon not running\n");
    json_decref(daemon);
    return options_has(&call->options, "verbose") ? print_engine(call) : 0;
}

const struct command cmd_version = {
    .name = "version", .args = ARGS_NONE, .summary = "print the versions of jobctl and of the "
    "running daemon", .options = options, .run = run,
};
