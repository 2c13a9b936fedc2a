/* SPDX-License-Identifier: Apache-2.0 */
/* verify_resize.c - kind "resize": pictures resized exactly as by Pillow
 *
 * Tensors in.I [H,W,3] and out.I.FILTER of bytes; the size is that of the tensor.
 */
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/files/safetensors.h"
#include "engine/image/image.h"
#include "engine/image/resample.h"
#include "tests/verify/verify_internal.h"

static const struct {
    const char          *name;
    enum resample_filter filter;
} filters[] = {{"bilinear", RESAMPLE_BILINEAR}, {"bicubic", RESAMPLE_BICUBIC}, {"lanczos", RESAMPLE_LANCZOS}};

static int filter_of(const char *name)
{
    for (int i = 0; i < (int)(sizeof(filters) / sizeof(filters[0])); i++)
        if (strcmp(filters[i].name, name) == 0)
            return i;
    return -1;
}

static bool is_picture(const struct st_tensor *t)
{
    return t && t->dtype == ST_U8 && t->ndim == 3 && t->dim[2] == 3 && t->dim[0] >= 1 && t->dim[1] >= 1 &&
           t->dim[0] <= IMAGE_MAX_EDGE && t->dim[1] <= IMAGE_MAX_EDGE;
}

static int scale(struct image *out, const struct st_tensor *from, const struct st_tensor *to,
                 enum resample_filter filter, struct err *err)
{
    struct image in;
    if (image_create(&in, (int)from->dim[1], (int)from->dim[0], err) < 0)
        return -1;
    memcpy(in.rgb, from->data, from->bytes);
    const int rc = resample_image(out, &in, (int)to->dim[1], (int)to->dim[0], filter, err);
    image_free(&in);
    return rc;
}

/* One tensor out.I.FILTER. */
static int check_one(struct verify_result *result, const struct verify_case_files *files, const struct st_tensor *want,
                     struct err *err)
{
    char filter[32], name[48];
    int number, differ = 0;
    struct image out;
    if (sscanf(want->name, "out.%d.%31s", &number, filter) != 2 || filter_of(filter) < 0)
        return err_set(err, ERR_DATA, "\"%s\" is not out.NUMBER.bilinear, bicubic or lanczos", want->name);
    snprintf(name, sizeof(name), "in.%d", number);
    const struct st_tensor *in = st_find(files->golden, name);
    if (!is_picture(in) || !is_picture(want))
        return err_set(err, ERR_DATA, "\"%s\" or \"%s\" is not a picture [H,W,3] of bytes", name, want->name);
    if (scale(&out, in, want, filters[filter_of(filter)].filter, err) < 0)
        return -1;
    for (size_t i = 0; i < want->bytes; i++)
        differ += out.rgb[i] != ((const unsigned char *)want->data)[i];
    image_free(&out);
    verify_count(result, files, want->name, differ);
    return 0;
}

int verify_resize(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    int checked = 0;
    for (int i = 0; i < st_len(files->golden); i++) {
        const struct st_tensor *t = st_at(files->golden, i);
        if (strncmp(t->name, "out.", 4) != 0)
            continue;
        if (check_one(result, files, t, err) < 0)
            return -1;
        checked++;
    }
    return checked ? 0 : err_set(err, ERR_DATA, "the case has no tensors \"out.*\"");
}
