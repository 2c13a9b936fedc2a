/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_encode.c - jobctl-train encode: captions as the vectors that a model is trained with
 *
 * --encoder PATH [--chi FILE] [--rows N] [--style authors|diffusers] [--no-prefix] [--out FILE] [--json]
 * [--backend auto|cpu|cuda] [--precision auto|fp32|bf16]; a caption per line of standard input.  FILE of --chi is the
 * instruction, to its last byte.  --out writes safetensors: y.I and mask.I of caption I, and y.null and mask.null of a
 * dropped one.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/cli/train_cmd.h"
#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_make.h"
#include "engine/files/mapped_file.h"
#include "engine/files/safetensors.h"
#include "engine/model/backend.h"
#include "engine/text/text_encoder.h"

enum { CAPTIONS = 10000 };

struct encode {
    const char          *encoder, *chi, *rows, *style, *out, *backend, *precision;
    bool                 no_prefix, json;
    struct text_encoder *e;
    struct st_writer    *w;
    float               *kept[2 * CAPTIONS + 2];
    int                  n;      /* of kept */
    int                  captions, reused;
    double               open_s, run_s;
};

static double seconds(void)
{
    return 1e-9 * (double)clock_ns();
}

/* y and mask of one caption; both stay until the file is written. */
static int add(struct encode *c, const char *name, const char *caption, size_t n, bool *reused, struct err *err)
{
    const int64_t dim[] = {text_encoder_rows(c->e), text_encoder_channels(c->e)};
    char tensor[2][40];
    float *y = malloc((size_t)(dim[0] * dim[1]) * sizeof(*y)), *mask = malloc((size_t)dim[0] * sizeof(*mask));
    c->kept[c->n++] = y;
    c->kept[c->n++] = mask;
    if (!y || !mask)
        return err_set(err, ERR_MEMORY, "no memory for a caption's vectors");
    if ((caption ? text_encoder_caption(c->e, caption, n, y, mask, reused, err)
                 : text_encoder_null(c->e, y, mask, err)) < 0)
        return -1;
    snprintf(tensor[0], sizeof(tensor[0]), "y.%s", name);
    snprintf(tensor[1], sizeof(tensor[1]), "mask.%s", name);
    if (c->w && (st_writer_add(c->w, tensor[0], ST_F32, 2, dim, y, err) < 0 ||
                 st_writer_add(c->w, tensor[1], ST_F32, 1, dim, mask, err) < 0))
        return -1;
    if (!c->w) {
        free(c->kept[--c->n]);
        free(c->kept[--c->n]);
    }
    return 0;
}

static int encode_lines(struct encode *c, struct err *err)
{
    char *line = NULL, name[24];
    size_t room = 0;
    int rc = 0;
    for (ssize_t n; rc == 0 && (n = getline(&line, &room, stdin)) >= 0; c->captions++) {
        bool reused = false;
        if (c->captions == CAPTIONS)
            rc = err_set(err, ERR_USAGE, "more than %d captions", CAPTIONS);
        snprintf(name, sizeof(name), "%d", c->captions);
        if (rc == 0)
            rc = add(c, name, line, (size_t)n - (n > 0 && line[n - 1] == '\n'), &reused, err);
        c->reused += reused;
    }
    free(line);
    return rc == 0 && c->w ? add(c, "null", NULL, 0, NULL, err) : rc;
}

static int write_out(struct encode *c, struct err *err)
{
    int64_t bytes;
    if (!c->w)
        return 0;
    const int fd = open(c->out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return err_set(err, ERR_SYSTEM, "%s: cannot be written", c->out);
    const int rc = st_writer_write(c->w, fd, &bytes, err);
    return close(fd) < 0 && rc == 0 ? err_set(err, ERR_SYSTEM, "%s: cannot be written", c->out) : rc;
}

static int open_encoder(struct encode *c, struct err *err)
{
    struct mapped_file chi = {0};
    char *text = NULL;
    if (c->chi && mapped_file_open(&chi, c->chi, err) < 0)
        return -1;
    text = chi.size ? strndup((const char *)chi.bytes, chi.size) : NULL;
    mapped_file_close(&chi);
    const struct text_encoder_options o = {.chi = text, .rows = c->rows ? atoi(c->rows) : 0,
                                           .diffusers = c->style && strcmp(c->style, "diffusers") == 0,
                                           .no_prefix = c->no_prefix};
    const int rc = text_encoder_open(&c->e, c->encoder, &o, err);
    free(text);
    return rc;
}

static void tell(const struct encode *c)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    const double each = c->captions ? c->run_s / c->captions : 0;
    if (c->json) {
        json_t *o = json_make("{s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:I}", "schema", 1, "captions", c->captions,
                              "prefix_reused", c->reused, "rows", text_encoder_rows(c->e), "channels",
                              text_encoder_channels(c->e), "open_s", c->open_s, "caption_s", each, "peak_bytes",
                              (json_int_t)use.ru_maxrss * 1024);
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(o);
        return;
    }
    printf("%d captions of %d x %d, %.3f s each; opened in %.3f s; the instruction was reused for %d; peak memory "
           "%.0f MB, mapped files included\n", c->captions, text_encoder_rows(c->e), text_encoder_channels(c->e), each,
           c->open_s, c->reused, 1.024e-3 * (double)use.ru_maxrss);
}

static int check_options(const struct encode *c, struct err *err)
{
    char *end = NULL;
    const long rows = c->rows ? strtol(c->rows, &end, 10) : 2;
    if (rows < 2 || rows > 100000 || (end && *end))
        return err_set(err, ERR_USAGE, "--rows is \"%.20s\"; expected a whole number of at least 2", c->rows);
    if (c->style && strcmp(c->style, "authors") != 0 && strcmp(c->style, "diffusers") != 0)
        return err_set(err, ERR_USAGE, "--style is \"%.20s\"; expected authors or diffusers", c->style);
    return 0;
}

static int run(struct encode *c, struct err *err)
{
    const double begin = seconds();
    if (check_options(c, err) < 0 || backend_open(c->backend, c->precision, err) < 0 || open_encoder(c, err) < 0 ||
        (c->out && st_writer_create(&c->w, err) < 0))
        return -1;
    const double opened = seconds();
    c->open_s = opened - begin;
    if (encode_lines(c, err) < 0)
        return -1;
    c->run_s = seconds() - opened;
    if (write_out(c, err) < 0)
        return -1;
    tell(c);
    return 0;
}

int train_cmd_encode(int argc, char **argv)
{
    static struct encode c;
    const struct train_cmd_option options[] = {
        {.name = "--encoder", .value = &c.encoder, .required = true},
        {.name = "--chi", .value = &c.chi},
        {.name = "--rows", .value = &c.rows},
        {.name = "--style", .value = &c.style},
        {.name = "--out", .value = &c.out},
        {.name = "--backend", .value = &c.backend},
        {.name = "--precision", .value = &c.precision},
        {.name = "--no-prefix", .flag = &c.no_prefix},
        {.name = "--json", .flag = &c.json},
        {.name = NULL},
    };
    struct err err = {0};
    const int rc = train_cmd_parse(argc, argv, options);
    if (rc != 0)
        return rc;
    run(&c, &err);
    st_writer_destroy(c.w);
    while (c.n > 0)
        free(c.kept[--c.n]);
    text_encoder_close(c.e);
    return err.code ? train_cmd_fail("encode", &err) : EXIT_DONE;
}
