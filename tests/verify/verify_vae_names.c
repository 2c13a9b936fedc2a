/* SPDX-License-Identifier: Apache-2.0 */
/* verify_vae_names.c - kind "names-table" of autoencoders: every tensor of the real ones, by name and size
 *
 * DC-AE: "map" has the authors' names and those of diffusers, one or three.  SDXL: "tensors" has names and shapes,
 * which must be those that its configuration asks for, and no others.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/vae/vae.h"
#include "engine/vae/vae_names.h"
#include "tests/verify/verify_internal.h"

bool verify_is_vae_table(const struct verify_case_files *files)
{
    const json_t *first = json_array_get(json_object_get(files->config, "map"), 0);
    const char *name = json_string_value(json_object_get(first, "authors"));
    return json_object_get(files->config, "tensors") || (name && strncmp(name, "encoder.", 8) == 0);
}

static void tell(struct verify_result *result, const struct verify_case_files *files, const char *name, bool same)
{
    const float ours = !same;
    const double want = 0;
    verify_compare(result, files, &(struct verify_row){name, VERIFY_EXACT, &ours, &want, 1, 0});
}

static bool same_names(const json_t *theirs, const char *authors)
{
    char names[VAE_NAME_PARTS][VAE_NAME];
    const int parts = vae_names_diffusers(names, authors);
    if (json_is_string(theirs))
        return parts == 1 && strcmp(names[0], json_string_value(theirs)) == 0;
    for (int i = 0; i < parts; i++) {
        const char *name = json_string_value(json_array_get(theirs, (size_t)i));
        if (!name || strcmp(names[i], name) != 0)
            return false;
    }
    return parts > 0 && json_array_size(theirs) == (size_t)parts;
}

static int check_map(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(files->config, "map"), i, row) {
        const char *authors = json_string_value(json_object_get(row, "authors"));
        if (!authors)
            return err_set(err, ERR_DATA, "map[%zu] has no \"authors\"", i);
        tell(result, files, authors, same_names(json_object_get(row, "diffusers"), authors));
    }
    return 0;
}

struct table {
    struct verify_result           *result;
    const struct verify_case_files *files;
    json_t                         *tensors;
};

static bool same_shape(const json_t *shape, size_t rows, size_t each)
{
    size_t product = 1;
    for (size_t i = 1; i < json_array_size(shape); i++)
        product *= (size_t)json_integer_value(json_array_get(shape, i));
    return (size_t)json_integer_value(json_array_get(shape, 0)) == rows && product == each;
}

/* A tensor that is asked for: taken off the list. */
static const float *take(void *arg, const char *name, size_t rows, size_t each, float *scratch, struct err *err)
{
    struct table *t = arg;
    (void)err;
    tell(t->result, t->files, name, same_shape(json_object_get(t->tensors, name), rows, each));
    json_object_del(t->tensors, name);
    return memset(scratch, 0, rows * each * sizeof(*scratch));
}

static int check_tensors(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    static const struct vae_config sdxl = {.family = VAE_KL, .latent = 4, .stages = 4, .width = {128, 256, 512, 512},
                                           .encoder_depth = {2, 2, 2, 2}, .decoder_depth = {3, 3, 3, 3}, .groups = 32};
    struct table t = {result, files, json_deep_copy(json_object_get(files->config, "tensors"))};
    const struct vae_weights weights = {take, &t, NULL};
    const char *name;
    json_t *shape;
    int rc = 0;
    for (int half = 0; rc == 0 && half < 2; half++) {
        struct vae *v = NULL;
        rc = vae_create(&v, &sdxl, half ? VAE_DECODER : VAE_ENCODER, &weights, err);
        vae_destroy(v);
    }
    json_object_foreach(t.tensors, name, shape)
        tell(result, files, name, false);
    json_decref(t.tensors);
    return rc;
}

int verify_vae_names(struct verify_result *result, const struct verify_case_files *files, struct err *err)
{
    return json_object_get(files->config, "tensors") ? check_tensors(result, files, err)
                                                     : check_map(result, files, err);
}
