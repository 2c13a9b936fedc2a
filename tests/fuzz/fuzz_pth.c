/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_pth.c - a file of torch.save() that somebody else wrote
 *
 * Accepted input gives every number of every tensor without an invalid read; a refusal has a message.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/weights/pickle.h"
#include "engine/weights/pth.h"
#include "engine/weights/tensor_view.h"
#include "tests/fuzz/target.h"

enum { COPY_MAX = 1 << 16 };

static void check_tensor(const struct tensor_view *v)
{
    const size_t n = v->count < COPY_MAX ? v->count : COPY_MAX;
    float *numbers = malloc(n * sizeof(*numbers) + 1);
    PROMISE(strlen(v->name) < TENSOR_VIEW_NAME && v->ndim >= 0 && v->ndim <= ST_DIMS && v->dtype < ST_DTYPES);
    if (numbers) {
        tensor_view_floats(numbers, v, 0, n);
        tensor_view_floats(numbers, v, v->count - n, n);
    }
    free(numbers);
}

static void check_value(void *ctx, const char *path, const struct pickle_value *value)
{
    size_t *n = ctx;
    PROMISE(strlen(path) < TENSOR_VIEW_NAME && value->kind < PICKLE_TUPLE);
    ++*n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pth *f = NULL;
    struct err err = {0};
    size_t values = 0;
    if (pth_parse(&f, data, size, &err) < 0) {
        PROMISE(err.text[0]);
        return 0;
    }
    for (int i = 0; i < pth_len(f); i++)
        check_tensor(pth_at(f, i));
    pth_each_value(f, check_value, &values);
    pth_close(f);
    return 0;
}
