/* SPDX-License-Identifier: Apache-2.0 */
/* portable.c - prints name and digest of each kind of number that must not depend on the processor
 *
 * tests/cpus/run.sh compares these lines between processors.
 *
 *   portable CONFIG.json     of a golden case: what its model's first weights are
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/collection/caption.h"
#include "engine/data/batch_plan.h"
#include "engine/image/dct.h"
#include "engine/image/image.h"
#include "engine/model/flow.h"
#include "engine/model/layout.h"
#include "engine/model/model.h"
#include "engine/optim/schedule.h"
#include "kernels/kernels.h"
#include "kernels/rng.h"

enum { MANY = 10000, CONFIG_TEXT = 12, CONFIG_EDGE = 8, BATCH = 32, STEPS = 200 };

static void must(int rc, const struct err *err)
{
    if (rc == 0)
        return;
    fprintf(stderr, "portable: %s\n", err->text);
    exit(1);
}

static void tell(const char *name, const void *bytes, size_t n)
{
    struct err err = {0};
    struct digest *d;
    char text[DIGEST_TEXT];
    must(digest_create(&d, &err), &err);
    digest_add(d, bytes, n);
    digest_text(d, text);
    digest_destroy(d);
    printf("%-14s %s\n", name, text);
}

static void tell_random(void)
{
    static uint32_t bits[MANY];
    static float uniform[MANY], normal[MANY];
    static int index[MANY];
    const struct rng r = rng_make(7, 3, 11, RNG_NOISE);
    rng_bits(&r, bits, 5, MANY);
    rng_uniform(&r, uniform, 5, MANY);
    rng_normal(&r, normal, 5, MANY);
    for (int i = 0; i < MANY; i++)
        index[i] = flow_index(rng_normal_at(&r, (uint64_t)i), 0, 1);
    tell("random bits", bits, sizeof(bits));
    tell("uniform", uniform, sizeof(uniform));
    tell("normal", normal, sizeof(normal));
    tell("timesteps", index, sizeof(index));
}

static void tell_tables(void)
{
    static struct flow flow[2];
    static float rates[MANY];
    const struct schedule lr = {SCHEDULE_COSINE, 1e-4, 100, MANY, 0.05};
    flow_init(&flow[0], 1);
    flow_init(&flow[1], 3);
    for (int i = 0; i < MANY; i++)
        rates[i] = (float)schedule_lr(&lr, i);
    tell("flow tables", flow, sizeof(flow));
    tell("rates", rates, sizeof(rates));
}

static void tell_plan(void)
{
    static const int64_t sizes[] = {1000, 37, 5, 4211};
    static struct batch_slot slots[BATCH * STEPS];
    struct err err = {0};
    struct batch_plan *p;
    must(batch_plan_create(&p, 42, BATCH, sizes, 4, &err), &err);
    memset(slots, 0, sizeof(slots));
    for (int step = 0; step < STEPS; step++)
        batch_plan_slots(p, slots + step * BATCH, step * 5, 0, BATCH);
    batch_plan_destroy(p);
    tell("batches", slots, sizeof(slots));
}

static void tell_encoders(void)
{
    static float latent[3 * 8 * 8 * 4 * 4], tokens[8 * 64], mask[8];
    struct err err = {0};
    struct image in, out;
    must(image_create(&in, 50, 44, &err), &err);
    for (int i = 0; i < 50 * 44 * 3; i++)
        in.rgb[i] = (uint8_t)(i * 37 >> 2);
    must(image_fit(&out, &in, 32, 32, &err), &err);
    must(dct_encode(latent, &out, 8, &err), &err);
    caption_encode(tokens, mask, "a red house on a green hill", 8, 64);
    tell("pixels", out.rgb, 32 * 32 * 3);
    tell("latents", latent, sizeof(latent));
    tell("captions", tokens, sizeof(tokens));
    image_free(&in);
    image_free(&out);
}

static void read_config(struct model_config *cfg, const char *path)
{
    struct err err = {0};
    json_error_t why;
    json_t *json = json_load_file(path, 0, &why);
    if (!json)
        must(err_set(&err, ERR_DATA, "%s: %s", path, why.text), &err);
    must(model_config_parse(cfg, json, &err), &err);
    json_decref(json);
}

static void tell_weights(const char *config)
{
    const struct model_limits max = {.batch = 1, .height = CONFIG_EDGE, .width = CONFIG_EDGE,
                                     .text = CONFIG_TEXT};
    struct err err = {0};
    struct model_config cfg;
    struct model *m;
    read_config(&cfg, config);
    must(model_create(&m, &cfg, &max, false, &err), &err);
    const uint64_t layout = layout_digest(model_layout(m));
    model_init_weights(m, 5);
    tell("layout", &layout, sizeof(layout));
    tell("first weights", model_weights(m), layout_floats(model_layout(m)) * sizeof(float));
    model_destroy(m);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: portable CONFIG.json\n");
        return 2;
    }
    tell_random();
    tell_tables();
    tell_plan();
    tell_encoders();
    tell_weights(argv[1]);
    return 0;
}
