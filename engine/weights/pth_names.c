/* SPDX-License-Identifier: Apache-2.0 */
/* pth_names.c - the names that a pickle of torch.save() may have, and what each stands for; see pth.h */
#include "engine/weights/pth_internal.h"

const struct pickle_name pth_names[] = {
    {"collections", "OrderedDict"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch._utils", "_rebuild_parameter"},
    {"numpy.core.multiarray", "_reconstruct"},
    {"numpy._core.multiarray", "_reconstruct"},
    {"numpy", "ndarray"},
    {"numpy", "dtype"},
    {"_codecs", "encode"},
    {"torch", "FloatStorage"},
    {"torch", "HalfStorage"},
    {"torch", "BFloat16Storage"},
    {"torch", "DoubleStorage"},
    {"torch", "LongStorage"},
    {"torch", "IntStorage"},
    {"torch", "ShortStorage"},
    {"torch", "CharStorage"},
    {"torch", "ByteStorage"},
    {"torch", "BoolStorage"},
    {NULL, NULL},
};

enum { FIRST_NUMPY = 3, FIRST_STORAGE = 8 };

enum pth_role pth_role_of(const struct pickle_value *global)
{
    if (global->number >= FIRST_STORAGE)
        return PTH_STORAGE;
    return global->number >= FIRST_NUMPY ? PTH_NUMPY : (enum pth_role)global->number;
}

enum st_dtype pth_dtype_of(const struct pickle_value *global)
{
    static const enum st_dtype dtypes[] = {ST_F32, ST_F16, ST_BF16, ST_F64, ST_I64,
                                           ST_I32, ST_I16, ST_I8,   ST_U8,  ST_BOOL};
    return dtypes[global->number - FIRST_STORAGE];
}

enum pth_role pth_call_role(const struct pickle *p, const struct pickle_value *call)
{
    return pth_role_of(pickle_at(p, call->callable));
}
