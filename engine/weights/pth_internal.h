/* SPDX-License-Identifier: Apache-2.0 */
/* pth_internal.h - internals of a .pth file, shared by pth*.c only */
#ifndef ENGINE_WEIGHTS_PTH_INTERNAL_H
#define ENGINE_WEIGHTS_PTH_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/files/mapped_file.h"
#include "engine/files/safetensors.h"
#include "engine/weights/pickle.h"
#include "engine/weights/tensor_view.h"
#include "engine/files/zip_records.h"

struct err;

/* A storage of the old form; in the new one it is a record. */
struct pth_storage {
    const unsigned char *key; /* not terminated */
    uint32_t             key_len;
    enum st_dtype        dtype;
    const unsigned char *bytes;
    size_t               count;
};

struct pth {
    struct mapped_file  map;      /* zeros for bytes of the caller */
    struct zip_records  records;  /* the new form */
    char                root[TENSOR_VIEW_NAME];
    struct pth_storage *storage;  /* the old form, by key; NULL in the new one */
    size_t              storages;
    bool                swapped;  /* big-endian numbers */
    struct pickle      *object;
    struct tensor_view *tensor;
    int                 len;
};

/* The meaning of a name in the pickle. */
enum pth_role {
    PTH_DICT,      /* collections.OrderedDict */
    PTH_TENSOR,    /* torch._utils._rebuild_tensor_v2 */
    PTH_PARAMETER, /* torch._utils._rebuild_parameter, around a tensor */
    PTH_NUMPY,     /* parts of numpy arrays: skipped */
    PTH_STORAGE    /* torch.FloatStorage and so on */
};

/* The names that a file may have */
extern const struct pickle_name pth_names[];
enum pth_role pth_role_of(const struct pickle_value *global);
enum st_dtype pth_dtype_of(const struct pickle_value *global);
/* The role of a call. */
enum pth_role pth_call_role(const struct pickle *p, const struct pickle_value *call);

/* pth_tensor.c: checks a storage, a call, and makes views */
/* *out: key and dtype of a persistent id with `fields` fields, and its announced count of numbers. */
int pth_read_id(const struct pickle *p, const struct pickle_value *stored, int fields, struct pth_storage *out,
                struct err *err);
int pth_check_values(const struct pth *f, struct err *err);
/* Orders two struct pth_storage by key, for qsort() and bsearch(). */
int pth_storage_compare(const void *a, const void *b);
/* For a call that pth_check_values() accepted; the name stays empty. */
void pth_make_view(const struct pth *f, const struct pickle_value *call, struct tensor_view *out);

/* The object from its root, depth first. A leaf is a tensor or any value that is not a container. */
typedef void pth_leaf_fn(void *ctx, const char *path, const struct pickle_value *value, bool tensor);

#endif
