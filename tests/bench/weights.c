/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - time to draw the initial weights of Sana-1600M, compared with one core that draws number by number
 *
 * Every tensor is drawn whole, into one buffer. The numbers one by one are 16,777,216, and their time is scaled.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "engine/base/err.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "kernels/rng.h"
#include "kernels/rng_formula.h"
#include "kernels/thread_pool.h"

enum { SINGLE = 1 << 24 };

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void number_by_number(float *p)
{
    const struct rng r = rng_make(1, 0, 1, RNG_WEIGHTS);
    for (uint32_t i = 0; i < SINGLE; i++) {
        uint32_t word[4];
        rng_philox(&r, i / 4, word);
        p[i] = (float)(0.1 * (2 * (double)((float)(word[i % 4] >> 8) * 0x1p-24f) - 1));
    }
}

int main(void)
{
    const struct model_limits max = {1, 1, 1, 1, false, false, 0};
    struct model_config cfg;
    struct model *m = NULL;
    struct err err = {0};
    json_t *json = json_loads("{\"model\":{\"model\":\"SanaMS_1600M_P1_D20\"},\"text_encoder\":{\"y_norm\":true}}", 0, NULL);
    if (model_config_parse(&cfg, json, &err) < 0 || model_create(&m, &cfg, &max, false, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    json_decref(json);
    const struct layout *l = model_layout(m);
    size_t most = SINGLE;
    for (int i = 0; i < layout_len(l); i++)
        most = layout_at(l, i)->count > most ? layout_at(l, i)->count : most;
    float *p = calloc(most, sizeof(*p));
    if (!p)
        return 1;
    number_by_number(p);
    const double scale = (double)layout_params(l) / SINGLE;
    for (int round = 0; round < 3; round++) {
        double start = now(CLOCK_PROCESS_CPUTIME_ID);
        number_by_number(p);
        const double single = (now(CLOCK_PROCESS_CPUTIME_ID) - start) * scale;
        start = now(CLOCK_PROCESS_CPUTIME_ID);
        const double begin = now(CLOCK_MONOTONIC);
        for (int i = 0; i < layout_len(l); i++)
            model_init_range(m, i, 0, layout_at(l, i)->count, 1, p);
        printf("%lld weights: %.2f s on %d threads, %.2f s of processor time; number by number %.2f s\n",
               (long long)layout_params(l), now(CLOCK_MONOTONIC) - begin, thread_pool_size(),
               now(CLOCK_PROCESS_CPUTIME_ID) - start, single);
    }
    free(p);
    model_destroy(m);
    return 0;
}
