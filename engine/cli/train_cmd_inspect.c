/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_inspect.c - jobctl-train inspect: what a file or folder of weights is
 *
 * [--names] [--part FOLDER] PATH, or --spec SPEC: checks the weights that a spec names against its model, and what it
 * says of its data (encode_check.h), as far as that is possible without the data.  With --ranks N (of the job),
 * --neighbours N (of this machine) and --gpu-bytes N (of a rank's GPU; 0: on the CPU) also refuses a run that cannot
 * fit into that memory.  Nothing in the file is run.
 */
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/train_spec.h"
#include "engine/data/dataset.h"
#include "engine/encode/encode_check.h"
#include "engine/hub/hub_cache.h"
#include "engine/model/backend.h"
#include "engine/model/device_memory.h"
#include "engine/optim/fit_advice.h"
#include "engine/optim/fit_shape.h"
#include "engine/weights/pretrained.h"
#include "engine/weights/tensor_view.h"
#include "engine/weights/weights_source.h"
#include "engine/weights/weights_summary.h"
#include "kernels/kernels.h"

enum { DROPPED_SHOWN = 8 };

/* Where a spec is to run; ranks 0: unknown. */
struct machine {
    int     ranks, neighbours;
    int64_t gpu_memory;
};

static bool is_dropped(const struct weights_summary *s, const char *name)
{
    struct weights_place place;
    return !weights_names_optional(name) &&
           (s->naming == WEIGHTS_NAMINGS || !weights_names_map(&place, s->naming, name));
}

static void print_tensor(const struct tensor_view *v, const char *before)
{
    char shape[192];
    tensor_view_shape(shape, sizeof(shape), v);
    printf("%s%-4s %-18s %s\n", before, st_dtype_name(v->dtype), shape, v->name);
}

static void print_dropped(const struct weights_source *w, const struct weights_summary *s)
{
    int shown = 0;
    if (s->dropped == 0)
        return;
    printf("%-11s %d tensors that the model does not have\n", "dropped", s->dropped);
    for (int i = 0; i < weights_source_len(w) && shown < DROPPED_SHOWN; i++)
        if (is_dropped(s, weights_source_at(w, i)->name)) {
            print_tensor(weights_source_at(w, i), "            ");
            shown++;
        }
    if (s->dropped > shown)
        printf("            and %d more: --names lists all tensors\n", s->dropped - shown);
}

static void print_types(const struct weights_summary *s)
{
    printf("%-11s", "types");
    for (int d = 0; d < ST_DTYPES; d++)
        if (s->of_type[d])
            printf(" %s (%d)", st_dtype_name((enum st_dtype)d), s->of_type[d]);
    putchar('\n');
}

static void print_model(const struct weights_summary *s)
{
    printf("%-11s %s\n", "model", s->model ? s->model : "none of the released sizes");
    printf("%-11s depth %d, %d channels%s%s\n", "size", s->depth, s->hidden, s->qk_norm ? ", qk_norm" : "",
           s->cross_norm ? ", cross_norm" : "");
    if (s->preset)
        printf("%-11s preset: %s\n", "train.model", s->preset);
    printf("%-11s %lld\n", "parameters", (long long)s->numbers);
    print_types(s);
}

static void print_source(const struct weights_source *w, bool names)
{
    struct weights_summary s;
    weights_summary_make(&s, w);
    printf("%-11s %s\n%-11s %s\n", "file", weights_source_path(w), "form", weights_source_form(w));
    printf("%-11s %s\n%-11s %d\n", "names", weights_names_text(s.naming), "tensors", weights_source_len(w));
    if (s.naming != WEIGHTS_NAMINGS)
        print_model(&s);
    if (s.optional)
        printf("%-11s %d tensors that are recomputed\n", "ignored", s.optional);
    print_dropped(w, &s);
    if (weights_source_others(w))
        printf("%-11s %d tensors that are not weights, such as optimizer state\n", "besides", weights_source_others(w));
    for (int i = 0; names && i < weights_source_len(w); i++)
        print_tensor(weights_source_at(w, i), "");
}

/* What is not in the cache of a hub yet is said, and no mistake. */
static int absent(const char *what, struct err *err)
{
    if (err->code != ERR_NOT_FOUND)
        return -1;
    printf("%-11s not checked: %s\n", what, err->text);
    *err = (struct err){0};
    return 0;
}

static int check_weights(const struct train_spec *spec, struct err *err)
{
    struct pretrained *p = NULL;
    char text[PRETRAINED_TEXT];
    const int rc = pretrained_of_spec(&p, spec, err);
    if (p) {
        pretrained_text(text, p);
        printf("%-11s %s\n", "weights", text);
        if (pretrained_left_out(text, p))
            printf("%-11s %s\n", "left out", text);
    }
    pretrained_close(p);
    return rc < 0 && hub_name_is(spec->weights) ? absent("weights", err) : rc;
}

/* Sizes of the samples: those of features are in their files, except tar files, which would have to be read whole. */
static bool shape_of(struct fit_shape *out, const struct train_spec *spec)
{
    struct dataset *d = NULL;
    struct err err = {0};
    if (spec->encoders != ENCODERS_FEATURES)
        return fit_shape(out, spec);
    if (dataset_has_tars(spec->data_path) || dataset_open(&d, spec, NULL, NULL, &err) < 0)
        return false;
    const struct dataset_shape s = dataset_shape(d);
    dataset_close(d);
    *out = (struct fit_shape){s.channels, s.height, s.width, s.words, s.caption_channels};
    return true;
}

/* `total` bytes of a GPU; 0: of this machine. */
static int refuse(const struct train_spec *spec, const struct fit_shape *s, const struct machine *m, int64_t total,
                  bool bf16, struct err *err)
{
    struct train_spec with = *spec;
    with.model.latent_channels = s->channels;
    with.model.caption_channels = s->caption_channels;
    with.model.caption_len = s->words;
    const struct fit_ask ask = {
        .spec = &with, .height = s->height, .width = s->width, .text = s->words, .ranks = m->ranks,
        .neighbours = m->neighbours, .device = total > 0, .bf16 = bf16,
        .room = {.total = total > 0 ? total : device_memory_most()}};
    return fit_refuse(&ask, err);
}

/* A GPU that does not do, or whose kernels are missing, is not used: such a run is on the CPU. It is opened, which
 * takes its time, only to confirm what its size says. */
static int check_memory(const struct train_spec *spec, const struct machine *m, struct err *err)
{
    struct fit_shape s;
    struct err gpu = {0};
    if (!spec->memory_check || m->ranks < 1 || !shape_of(&s, spec))
        return 0;
    const bool narrow = strcmp(spec->precision, "fp32") != 0;
    if (m->gpu_memory > 0 && refuse(spec, &s, m, m->gpu_memory, narrow, &gpu) == 0)
        return 0;
    if (backend_open(m->gpu_memory > 0 ? "auto" : "cpu", spec->precision, NULL) < 0)
        return 0;
    return refuse(spec, &s, m, backend_ops()->host ? 0 : m->gpu_memory, backend_is_bf16(), err);
}

static int check_spec(const char *file, const struct machine *m)
{
    struct err err = {0};
    struct train_spec spec = {.weights = ""};
    json_t *job = train_cmd_load_spec(file, &err);
    if (job && train_spec_parse(&spec, job, &err) == 0 && check_weights(&spec, &err) == 0 &&
        (encode_check(&spec, &err) == 0 || absent("encoders", &err) == 0) && train_spec_encodes(&spec))
        printf("%-11s %s\n", "encoders", spec.encoders == ENCODERS_SANA ? "sana" : "lumina");
    if (!err.code)
        check_memory(&spec, m, &err);
    json_decref(job);
    return err.code ? train_cmd_fail("inspect", &err) : EXIT_DONE;
}

int train_cmd_inspect(int argc, char **argv)
{
    static const struct option options[] = {
        {"names", no_argument, NULL, 'n'}, {"part", required_argument, NULL, 'p'},
        {"spec", required_argument, NULL, 's'}, {"ranks", required_argument, NULL, 'r'},
        {"neighbours", required_argument, NULL, 'h'}, {"gpu-bytes", required_argument, NULL, 'g'}, {NULL, 0, NULL, 0}};
    const char *part = "transformer", *spec = NULL;
    struct machine machine = {0};
    bool names = false;
    char path[PATH_MAX];
    struct weights_source *w = NULL;
    struct err err = {0};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == '?')
            return EXIT_CONFIG;
        names |= c == 'n';
        part = c == 'p' ? optarg : part;
        spec = c == 's' ? optarg : spec;
        machine.ranks = c == 'r' ? atoi(optarg) : machine.ranks;
        machine.neighbours = c == 'h' ? atoi(optarg) : machine.neighbours;
        machine.gpu_memory = c == 'g' ? atoll(optarg) : machine.gpu_memory;
    }
    if (spec && optind == argc)
        return check_spec(spec, &machine);
    if (optind + 1 != argc) {
        err_set(&err, ERR_USAGE, "name one file or folder: jobctl-train inspect [--names] [--part FOLDER] PATH, or "
                "--spec SPEC");
        return train_cmd_fail("inspect", &err);
    }
    if (hub_cache_open(path, argv[optind], part, &err) < 0 || weights_source_open(&w, path, part, &err) < 0)
        return train_cmd_fail("inspect", &err);
    print_source(w, names);
    weights_source_close(w);
    return EXIT_DONE;
}
