/* SPDX-License-Identifier: Apache-2.0 */
/* train_env.c - see train_env.h */
#include "engine/train/train_env.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/env.h"
#include "engine/base/err.h"

static int read_skips(struct train_skips *s, struct err *err)
{
    const char *text = getenv("JOBCTL_SKIP_STEP");
    char *end;
    for (; text && *text; text = *end ? end + 1 : end) {
        const long long step = strtoll(text, &end, 10);
        if (end == text || step < 0 || (*end && *end != ',') || s->n == TRAIN_SKIPS)
            return err_set(err, ERR_USAGE, "JOBCTL_SKIP_STEP is '%.60s', expected at most %d numbers from "
                                           "0, as in 17,23", getenv("JOBCTL_SKIP_STEP"), TRAIN_SKIPS);
        s->step[s->n++] = step;
    }
    return 0;
}

/* Entries of other ranks and generations are for them. */
static int read_stop(struct train_env *env, int generation, struct err *err)
{
    const char *text = getenv("TRAIN_TEST_STOP");
    env->stop_at = -1;
    for (int n; text && *text; text += n + (text[n] == ',')) {
        int of, rank;
        long long step;
        n = 0;
        if (sscanf(text, "%d:%d:%lld%n", &of, &rank, &step, &n) != 3 || (text[n] && text[n] != ','))
            return err_set(err, ERR_USAGE, "TRAIN_TEST_STOP has '%.60s', expected GENERATION:RANK:STEP,...", text);
        if (of == generation && rank == env->rank)
            env->stop_at = step;
    }
    return 0;
}

int train_env_read(struct train_env *env, struct err *err)
{
    int attempt = 1, generation = 1;
    *env = (struct train_env){.world_size = 1};
    if (env_int("RANK", 0, &env->rank, err) < 0 ||
        env_int("WORLD_SIZE", 1, &env->world_size, err) < 0 ||
        read_skips(&env->skips, err) < 0 ||
        env_int("JOBCTL_TEST_DESYNC", 1, &env->desync_at, err) < 0 ||
        env_int("TRAIN_TEST_SNAPSHOT_EVERY", 0, &env->snapshot_every, err) < 0 ||
        env_int("TRAIN_TEST_PLAIN_INPUT", 0, &env->plain_input, err) < 0 ||
        env_int("JOBCTL_ATTEMPT", 1, &attempt, err) < 0 ||
        env_int("JOBCTL_GENERATION", 1, &generation, err) < 0 ||
        read_stop(env, generation, err) < 0)
        return -1;
    const char *dir = getenv("JOBCTL_CKPT_DIR"), *flight = getenv("JOBCTL_FLIGHT");
    const char *backend = getenv("JOBCTL_BACKEND"), *oom = getenv("JOBCTL_TEST_OOM");
    env->backend = backend && *backend ? backend : NULL;
    env->ckpt_dir = dir && *dir ? dir : NULL;
    env->flight = flight && *flight ? flight : NULL;
    env->oom = oom && *oom ? oom : NULL;
    env->again = attempt > 1 || generation > 1;
    env->new_attempt = attempt > 1 && generation == 1;
    return 0;
}
