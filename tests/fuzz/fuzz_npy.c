/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_npy.c - an array of NumPy, or an archive of them, that somebody else wrote
 *
 * Accepted input gives every number without an invalid read; a refusal has a message.
 */
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/npy.h"
#include "tests/fuzz/target.h"

enum { COUNT_MAX = 1 << 20 };

static void check_array(const struct npy *a)
{
    float *numbers = a->tensor.count <= COUNT_MAX ? malloc(sizeof(*numbers) * (a->tensor.count + 1)) : NULL;
    PROMISE(a->tensor.ndim >= 0 && a->tensor.ndim <= ST_DIMS && a->tensor.dtype < ST_DTYPES);
    if (numbers)
        PROMISE(npy_to_float(numbers, a, a->tensor.count, NULL) == 0);
    free(numbers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    struct npy a;
    void *owned = NULL;
    if (npy_parse(&a, data, size, "array", &err) == 0)
        check_array(&a);
    else
        PROMISE(strstr(err.text, "array") != NULL);
    err = (struct err){0};
    const int there = npy_from_archive(&a, &owned, data, size, "caption_feature", "archive", &err);
    PROMISE(there >= 0 || (err.text[0] && !owned));
    if (there > 0)
        check_array(&a);
    free(owned);
    return 0;
}
