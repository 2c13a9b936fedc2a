/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_view.c - see tensor_view.h
 */
#include "engine/weights/tensor_view.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/digest.h"
#include "engine/base/err.h"

void tensor_view_dense(struct tensor_view *v)
{
    int64_t step = 1;
    for (int i = v->ndim - 1; i >= 0; i--) {
        v->step[i] = step;
        step *= v->dim[i] > 0 ? v->dim[i] : 1;
    }
}

void tensor_view_of(struct tensor_view *v, const struct st_tensor *t)
{
    *v = (struct tensor_view){.dtype = t->dtype, .ndim = t->ndim, .count = t->count, .data = t->data};
    memcpy(v->name, t->name, sizeof(t->name));
    memcpy(v->dim, t->dim, sizeof(v->dim));
    tensor_view_dense(v);
}

bool tensor_view_is_dense(const struct tensor_view *v)
{
    int64_t step = 1;
    for (int i = v->ndim - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->step[i] != step)
            return false;
        step *= v->dim[i];
    }
    return !v->swapped;
}

/* The i-th number's distance from the first. */
static int64_t place_of(const struct tensor_view *v, size_t i)
{
    int64_t place = 0;
    for (int d = v->ndim - 1; d >= 0; d--) {
        place += (int64_t)(i % (size_t)v->dim[d]) * v->step[d];
        i /= (size_t)v->dim[d];
    }
    return place;
}

static void copy_number(unsigned char *dst, const unsigned char *src, size_t size, bool swapped)
{
    for (size_t b = 0; b < size; b++)
        dst[b] = src[swapped ? size - 1 - b : b];
}

void tensor_view_copy(void *dst, const struct tensor_view *v, size_t from, size_t n)
{
    const size_t size = st_dtype_size(v->dtype);
    unsigned char *out = dst;
    if (n == 0)
        return;
    if (tensor_view_is_dense(v)) {
        memcpy(out, v->data + from * size, n * size);
        return;
    }
    for (size_t i = 0; i < n; i++)
        copy_number(out + i * size, v->data + (size_t)place_of(v, from + i) * size, size, v->swapped);
}

void tensor_view_floats(float *dst, const struct tensor_view *v, size_t from, size_t n)
{
    enum { PART = 1024 };
    unsigned char bytes[PART * sizeof(double)];
    for (size_t done = 0, part; done < n; done += part) {
        struct err none = {0};
        part = n - done < PART ? n - done : PART;
        const struct st_tensor t = {.dtype = v->dtype, .count = part, .bytes = part * st_dtype_size(v->dtype),
                                    .data = bytes};
        tensor_view_copy(bytes, v, from + done, part);
        st_to_float(dst + done, &t, part, &none);
    }
}

void tensor_view_digest(struct digest *d, const struct tensor_view *v)
{
    enum { PART = 4096 };
    unsigned char part[PART * 8];
    digest_add_text(d, v->name);
    digest_add(d, &v->dtype, sizeof(v->dtype));
    for (size_t at = 0, n; at < v->count; at += n) {
        n = v->count - at < PART ? v->count - at : PART;
        tensor_view_copy(part, v, at, n);
        digest_add(d, part, n * st_dtype_size(v->dtype));
    }
}

void tensor_view_shape(char *text, size_t room, const struct tensor_view *v)
{
    size_t n = (size_t)snprintf(text, room, "[");
    for (int i = 0; i < v->ndim && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%lld", i ? ", " : "", (long long)v->dim[i]);
    if (n < room)
        snprintf(text + n, room - n, "]");
}
