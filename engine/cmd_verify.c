/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_verify.c - jobctl-train verify [--backend cpu] CASE.json... */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "engine/command.h"
#include "engine/err.h"
#include "engine/exit_code.h"
#include "engine/verify.h"

static const char *case_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int verify_one(const char *path)
{
    struct verify_result r;
    struct err err = {0};
    const char *name = case_name(path);
    const size_t length = strlen(name);
    const int stem = (int)(length > 5 && strcmp(name + length - 5, ".json") == 0 ? length - 5
                                                                                 : length);
    if (verify_case(&r, path, &err) < 0) {
        printf("FAILED %.*s: %s\n", stem, name, err.text);
        return -1;
    }
    if (r.failed)
        printf("FAILED %.*s: %d of %d tensors; worst %s: %s %.2e, tolerance %.1e\n", stem, name,
               r.failed, r.tensors, r.worst, r.measure, r.error, r.tolerance);
    else
        printf("ok     %.*s: %d tensors; worst %s: %s %.2e, tolerance %.1e\n", stem, name,
               r.tensors, r.worst, r.measure, r.error, r.tolerance);
    return r.failed ? -1 : 0;
}

int command_verify(int argc, char **argv)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c != 'b')
            return EXIT_CONFIG;
        if (strcmp(optarg, "cpu") != 0) {
            fprintf(stderr, "verify: this program has no backend \"%s\"; it has cpu\n", optarg);
            return EXIT_NO_DEVICE;
        }
    }
    if (optind == argc) {
        fprintf(stderr, "verify: which case? Name one or more .json files\n");
        return EXIT_CONFIG;
    }
    int passed = 0, failed = 0;
    for (int i = optind; i < argc; i++) {
        if (verify_one(argv[i]) < 0)
            failed++;
        else
            passed++;
        fflush(stdout);
    }
    printf("verify: %d passed, %d failed\n", passed, failed);
    return failed ? 1 : EXIT_DONE;
}
