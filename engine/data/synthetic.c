/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.c - see synthetic.h */
#include "engine/data/synthetic.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "kernels/rng.h"

enum { ROW = 1 << 20 };

struct synthetic {
    float row[ROW]; /* from a standard normal distribution */
};

int synthetic_create(struct synthetic **out, struct err *err)
{
    struct synthetic *s = malloc(sizeof(*s));
    if (!s)
        return err_set(err, ERR_MEMORY, "out of memory for synthetic samples");
    const struct rng r = rng_make(0, 0, 0, RNG_SYNTHETIC);
    rng_normal(&r, s->row, 0, ROW);
    *out = s;
    return 0;
}

void synthetic_destroy(struct synthetic *s)
{
    free(s);
}

/* Numbers from the offset of (sample, part) in the row on, which wraps around. */
static void take(const struct synthetic *s, uint32_t part, int64_t sample, float *to, size_t n)
{
    uint32_t at;
    const struct rng r = rng_make(0, 1 + part, (uint64_t)sample, RNG_SYNTHETIC);
    rng_bits(&r, &at, 0, 1);
    at %= ROW;
    for (size_t done = 0; done < n;) {
        const size_t some = n - done < ROW - at ? n - done : ROW - at;
        memcpy(to + done, s->row + at, some * sizeof(*to));
        done += some;
        at = 0;
    }
}

void synthetic_get(const struct synthetic *s, int64_t sample, float *latent, size_t latent_floats,
                   float *caption, size_t caption_floats)
{
    if (latent)
        take(s, 0, sample, latent, latent_floats);
    if (caption)
        take(s, 1, sample, caption, caption_floats);
}
