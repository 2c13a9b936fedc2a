/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_peers.c - jobctl-train peers: test whether two GPUs copy to each other correctly
 *
 * One process per pair: on a broken path it may hang, and the caller ends it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/model/backend.h"
#include "kernels/cuda.h"

int train_cmd_peers(int argc, char **argv)
{
    const char *gpus = NULL;
    const struct train_cmd_option options[] = {
        {.name = "--gpus", .value = &gpus, .required = true},
        {.name = NULL},
    };
    struct kern_peer p = {.a = 0, .b = 1};
    struct err err = {0};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
    setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
    if (backend_try_peers(&p, &err) < 0)
        return train_cmd_fail("peers", &err);
    printf("{\"schema\":1,\"direct\":%s,\"words\":%lld,\"wrong\":%lld,\"gb_per_s\":%.3g}\n",
           p.direct ? "true" : "false", (long long)p.words, (long long)p.wrong,
           p.bytes_per_s / 1e9);
    return EXIT_DONE;
}
