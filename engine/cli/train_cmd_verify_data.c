/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_verify_data.c - jobctl-train verify-data: check the data, and that a run used all of it
 *
 * With --dir, the checkpoint directory of a run, the data is compared with the data of the newest
 * checkpoint, and the sample log is checked.  Exit code 65 if
 * there is any error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_make.h"
#include "engine/base/size_text.h"
#include "engine/contract/train_spec.h"
#include "engine/data/data_check.h"
#include "engine/data/dataset.h"
#include "engine/data/sample_audit.h"
#include "engine/data/sample_log.h"
#include "engine/encode/encode.h"
#include "engine/encode/encoder_pair.h"

enum { PROBLEMS = 1000 }; /* limit of the list; all are counted */

struct verdict {
    struct train_spec   spec;
    struct data_check   data;
    struct sample_audit log;
    int64_t             errors;
    bool                logged; /* there is a log, and it was read */
    json_t             *problems;
};

static void on_problem(void *arg, bool error, const char *where, const char *what)
{
    struct verdict *v = arg;
    char place[512], text[512];
    v->errors += error;
    if (json_array_size(v->problems) == PROBLEMS)
        return;
    snprintf(place, sizeof(place), "%s", where);
    snprintf(text, sizeof(text), "%s", what);
    err_make_printable(place); /* file names may hold any bytes */
    err_make_printable(text);
    json_array_append_new(v->problems, json_make("{s:s, s:s, s:s}", "kind",
                                                 error ? "error" : "notice", "where", place, "what",
                                                 text));
}

static void on_miscount(void *arg, const char *where, const char *what)
{
    on_problem(arg, true, where, what);
}

/* The newest checkpoint has the digest of its data. */
static int compare_digest(struct verdict *v, const struct dataset *d, const char *dir, struct err *err)
{
    char path[CHECKPOINT_PATH], what[64];
    int64_t step = checkpoint_newest_step(dir);
    if (step < 0)
        return 0;
    if (snprintf(path, sizeof(path), "%s/step-%08lld", dir, (long long)step) >= (int)sizeof(path))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    json_t *notes = checkpoint_notes(path, err);
    const char *was = json_string_value(json_object_get(notes, "data_digest"));
    if (was && strcmp(was, dataset_digest(d)) != 0) {
        snprintf(what, sizeof(what), "has changed since step %lld", (long long)step);
        on_problem(v, true, v->spec.data_path, what);
    }
    json_decref(notes);
    return notes ? 0 : -1;
}

/* Sizes are multiples of what the autoencoder makes one latent of. */
static int check_data(struct verdict *v, struct err *err)
{
    struct encoder_pair pair = {0};
    if (train_spec_encodes(&v->spec) && encoder_pair_find_or_assume(&pair, &v->spec, err) < 0)
        return -1;
    const int rc = data_check_run(&v->data, &v->spec, pair.factor, on_problem, v, err);
    encoder_pair_free(&pair);
    return rc;
}

static int check_run(struct verdict *v, const char *dir, struct err *err)
{
    char path[CHECKPOINT_PATH + 16];
    struct dataset *d = NULL;
    if ((train_spec_encodes(&v->spec) ? encode_open_filled(&d, &v->spec, err)
                                      : dataset_open(&d, &v->spec, NULL, NULL, err)) < 0)
        return -1;
    int rc = compare_digest(v, d, dir, err);
    snprintf(path, sizeof(path), "%s/" SAMPLE_LOG_DIR, dir);
    if (rc == 0 && access(path, F_OK) == 0) {
        rc = sample_audit_make(&v->log, path, d, v->spec.batch_global, on_miscount, v, err);
        v->logged = rc == 0;
    }
    dataset_close(d);
    return rc;
}

static void print_problems(const struct verdict *v)
{
    size_t i, n = json_array_size(v->problems);
    json_t *p;
    int width = 5;
    json_array_foreach (v->problems, i, p) {
        int w = (int)strlen(json_string_value(json_object_get(p, "where")));
        width = w > width && w <= 48 ? w : width;
    }
    if (n > 0)
        printf("%-7s %-*s %s\n", "KIND", width, "WHERE", "WHAT");
    json_array_foreach (v->problems, i, p)
        printf("%-7s %-*s %s\n", json_string_value(json_object_get(p, "kind")), width,
               json_string_value(json_object_get(p, "where")), json_string_value(json_object_get(p, "what")));
    if (v->data.errors + v->data.notices + v->log.wrong > (int64_t)n && n == PROBLEMS)
        printf("... and more; the first %d are listed\n", PROBLEMS);
}

static void print_words(const struct verdict *v, bool run)
{
    const struct sample_audit *a = &v->log;
    char size[SIZE_TEXT];
    print_problems(v);
    printf("data        %lld sample%s, %s read: %lld error%s, %lld notice%s\n", (long long)v->data.samples,
           v->data.samples == 1 ? "" : "s", size_text(v->data.bytes, size), (long long)v->data.errors,
           v->data.errors == 1 ? "" : "s", (long long)v->data.notices, v->data.notices == 1 ? "" : "s");
    if (v->data.prior)
        printf("prior       %lld sample%s\n", (long long)v->data.prior, v->data.prior == 1 ? "" : "s");
    if (run && !v->logged)
        printf("sample log  none; data.sample_log: true keeps one\n");
    char sizes[48] = "";
    if (a->sizes > 1)
        snprintf(sizes, sizeof(sizes), " with %d different numbers of ranks", a->sizes);
    if (v->logged)
        printf("sample log  steps %lld to %lld%s, %lld samples, %.2f epochs: %s\n", (long long)a->first,
               (long long)a->last, sizes, (long long)a->samples, (double)a->samples / (double)v->data.samples,
               a->wrong ? "some not exactly once an epoch" : "each exactly once an epoch");
}

static void print_json(const struct verdict *v)
{
    const struct sample_audit *a = &v->log;
    json_t *log = v->logged ? json_make("{s:I, s:I, s:I, s:I, s:i, s:I}", "first_step",
                                        (json_int_t)a->first, "last_step", (json_int_t)a->last,
                                        "samples", (json_int_t)a->samples, "epochs",
                                        (json_int_t)a->epochs, "sizes", a->sizes, "wrong",
                                        (json_int_t)a->wrong)
                            : json_null();
    json_t *o = json_make("{s:i, s:b, s:I, s:I, s:I, s:I, s:O, s:o}", "schema", 2, "good",
                          v->errors == 0, "samples", (json_int_t)v->data.samples, "bytes",
                          (json_int_t)v->data.bytes, "errors", (json_int_t)v->errors, "notices",
                          (json_int_t)v->data.notices, "problems", v->problems, "sample_log", log);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "{}");
    free(text);
    json_decref(o);
}

int train_cmd_verify_data(int argc, char **argv)
{
    const char *file = NULL, *dir = NULL;
    bool as_json = false;
    const struct train_cmd_option options[] = {
        {.name = "--spec", .value = &file, .required = true},
        {.name = "--dir", .value = &dir},
        {.name = "--json", .flag = &as_json},
        {.name = NULL},
    };
    struct err err = {0};
    struct verdict v = {.problems = json_array()};
    int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    json_t *job = train_cmd_load_spec(file, &err);
    if (job && train_spec_parse(&v.spec, job, &err) == 0 &&
        check_data(&v, &err) == 0 &&
        (!dir || v.errors > 0 || check_run(&v, dir, &err) == 0)) {
        if (as_json)
            print_json(&v);
        else
            print_words(&v, dir != NULL);
    }
    else if (!as_json) /* why nothing is left to read */
        print_problems(&v);
    json_decref(v.problems);
    json_decref(job);
    if (err.code)
        return train_cmd_fail("verify-data", &err);
    return v.errors ? EXIT_DATA : EXIT_DONE;
}
