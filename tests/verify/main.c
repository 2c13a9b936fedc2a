/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - jobctl-verify: check the engine against golden cases
 *
 * [--backend auto|cpu|cuda] [--precision fp32|bf16] [--each] CASE.json...
 * The exit code is 1 if a case failed, or that of jobctl-train where the device did.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_memory.h"
#include "engine/model/backend.h"
#include "kernels/processor.h"
#include "tests/verify/verify.h"

static const char *case_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The exit code of a case: 0, 1, or that of a failed device. */
static int verify_one(const char *path, FILE *each)
{
    struct verify_result r;
    struct err err = {0};
    const char *name = case_name(path);
    const size_t length = strlen(name);
    const int stem = (int)(length > 5 && strcmp(name + length - 5, ".json") == 0 ? length - 5
                                                                                 : length);
    if (verify_case(&r, path, each, &err) < 0) {
        printf("FAILED %.*s: %s\n", stem, name, err.text);
        const bool device = err.code == ERR_DEVICE || err.code == ERR_CUDA || err.code == ERR_DEVICE_MEMORY;
        return device ? exit_code_of(&err) : 1;
    }
    if (r.failed)
        printf("FAILED %.*s: %d of %d tensors; worst %s: %s %.2e, tolerance %.1e\n", stem, name,
               r.failed, r.tensors, r.worst, r.measure, r.error, r.tolerance);
    else
        printf("ok     %.*s: %d tensors; worst %s: %s %.2e, tolerance %.1e\n", stem, name,
               r.tensors, r.worst, r.measure, r.error, r.tolerance);
    return r.failed ? 1 : 0;
}

/* On the CPU unless a backend is named, because its numbers are compared, not used.
 * *each: output for every comparison, if requested. */
static int read_options(FILE **each, int argc, char **argv)
{
    static const struct option options[] = {
        {"backend", required_argument, NULL, 'b'},
        {"precision", required_argument, NULL, 'p'},
        {"each", no_argument, NULL, 'e'},
        {NULL, 0, NULL, 0},
    };
    const char *backend = "cpu", *precision = "fp32";
    struct err err = {0};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'b')
            backend = optarg;
        else if (c == 'p')
            precision = optarg;
        else if (c == 'e')
            *each = stdout;
        else
            return EXIT_CONFIG;
    }
    if (backend_open(backend, precision, &err) < 0) {
        fprintf(stderr, "jobctl-verify: %s\n", err.text);
        return exit_code_of(&err);
    }
    if (backend_note()[0])
        printf("%s\n", backend_note());
    return 0;
}

int main(int argc, char **argv)
{
    FILE *each = NULL;
    char why[PROCESSOR_WHY];
    json_memory_open("jobctl-verify", EXIT_HOST_MEMORY);
    if (processor_choose(getenv("JOBCTL_CPU"), why) < 0) {
        fprintf(stderr, "jobctl-verify: %s\n", why);
        return EXIT_CONFIG;
    }
    const int usage = read_options(&each, argc, argv);
    if (usage)
        return usage;
    if (optind == argc) {
        fprintf(stderr, "jobctl-verify: no case given; name one or more .json files\n");
        return EXIT_CONFIG;
    }
    int passed = 0, failed = 0, device = 0;
    for (int i = optind; i < argc; i++) {
        const int rc = verify_one(argv[i], each);
        if (rc == 0)
            passed++;
        else
            failed++;
        if (rc > 1)
            device = rc;
        fflush(stdout);
    }
    printf("verify: %d passed, %d failed\n", passed, failed);
    return device ? device : failed ? 1 : EXIT_DONE;
}
