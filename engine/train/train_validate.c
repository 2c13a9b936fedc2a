/* SPDX-License-Identifier: Apache-2.0 */
/* train_validate.c - see train_validate.h */
#include "engine/train/train_validate.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "engine/base/scratch.h"
#include "engine/data/dataset.h"
#include "engine/image/image.h"
#include "engine/model/layout.h"
#include "engine/optim/step.h"
#include "engine/train/font.h"
#include "engine/train/picture_decoder.h"
#include "engine/train/sample_prompts.h"
#include "engine/train/train_draw.h"
#include "engine/train/train_events.h"
#include "engine/train/train_ranks.h"
#include "engine/train/train_state.h"

struct err;

enum { CONTACT_SHEET_PATH = 4400, CONTACT_SHEET_ROWS = 40 };

struct contact_sheet {
    const char *const *prompts; /* heads of the columns */
    int                columns;
    const int64_t     *steps;   /* of the rows, ascending */
    int                rows;
    /* The file of a picture. */
    void             (*name)(void *arg, char path[CONTACT_SHEET_PATH], int64_t step, int column);
    void              *arg;
};

enum { SMALL = 128, LARGE = 256, GAP = 6, MARGIN = 12, HEAD = 24, SIDE = 66, INK = 0x303030, DIM = 0x808080,
       GREY = 0xD8D8D8 };

struct plan {
    int64_t steps[CONTACT_SHEET_ROWS];
    int     rows, cell_w, cell_h;
};

static bool has_row(const struct contact_sheet *s, int64_t step)
{
    char path[CONTACT_SHEET_PATH];
    for (int c = 0; c < s->columns; c++) {
        s->name(s->arg, path, step, c);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* Steps with pictures, thinned out. */
static int choose_rows(struct plan *p, const struct contact_sheet *s, struct err *err)
{
    int64_t *all = calloc((size_t)s->rows + 1, sizeof(*all));
    int n = 0;
    if (!all)
        return err_set(err, ERR_MEMORY, "out of memory for a contact sheet");
    for (int i = 0; i < s->rows; i++)
        if (has_row(s, s->steps[i]))
            all[n++] = s->steps[i];
    p->rows = n < CONTACT_SHEET_ROWS ? n : CONTACT_SHEET_ROWS;
    for (int i = 0; i < p->rows; i++)
        p->steps[i] = all[p->rows == 1 ? 0 : (int)((int64_t)i * (n - 1) / (p->rows - 1))];
    free(all);
    return n > 0 ? 0 : err_set(err, ERR_NOT_FOUND, "there are no pictures for a contact sheet");
}

/* The size that a picture has on the sheet. */
static void shown_size(const struct image *im, int *w, int *h, int *zoom)
{
    const int edge = im->width > im->height ? im->width : im->height;
    *zoom = edge < SMALL ? SMALL / edge : 1;
    *w = edge > LARGE ? (im->width * LARGE + edge / 2) / edge : im->width * *zoom;
    *h = edge > LARGE ? (im->height * LARGE + edge / 2) / edge : im->height * *zoom;
    *w = *w > 0 ? *w : 1;
    *h = *h > 0 ? *h : 1;
}

/* Empty if it cannot be read. */
static void read_cell(struct image *im, const struct contact_sheet *s, int64_t step, int column)
{
    char path[CONTACT_SHEET_PATH];
    s->name(s->arg, path, step, column);
    if (image_read(im, path, NULL) < 0)
        *im = (struct image){0};
}

static void measure(struct plan *p, const struct contact_sheet *s)
{
    p->cell_w = p->cell_h = 1;
    for (int c = 0; c < s->columns; c++) {
        struct image im;
        int w, h, zoom;
        read_cell(&im, s, p->steps[p->rows - 1], c);
        if (!im.rgb)
            continue;
        shown_size(&im, &w, &h, &zoom);
        p->cell_w = w > p->cell_w ? w : p->cell_w;
        p->cell_h = h > p->cell_h ? h : p->cell_h;
        image_free(&im);
    }
}

static int draw_cell(struct image *to, const struct image *im, int x, int y, struct err *err)
{
    int w, h, zoom;
    shown_size(im, &w, &h, &zoom);
    if (w >= im->width) {
        image_blit(to, im, x, y, zoom);
        return 0;
    }
    struct image small;
    if (image_fit(&small, im, w, h, err) < 0)
        return -1;
    image_blit(to, &small, x, y, 1);
    image_free(&small);
    return 0;
}

static int draw_row(struct image *to, const struct contact_sheet *s, const struct plan *p, int row, struct err *err)
{
    const int y = MARGIN + HEAD + row * (p->cell_h + GAP);
    char text[32];
    int rc = 0;
    snprintf(text, sizeof(text), "%lld", (long long)p->steps[row]);
    font_draw(to, MARGIN, y + p->cell_h / 2, text, 1, INK);
    for (int c = 0; c < s->columns && rc == 0; c++) {
        const int x = MARGIN + SIDE + c * (p->cell_w + GAP);
        struct image im;
        read_cell(&im, s, p->steps[row], c);
        image_fill(to, x, y, p->cell_w, p->cell_h, GREY);
        if (im.rgb)
            rc = draw_cell(to, &im, x, y, err);
        image_free(&im);
    }
    return rc;
}

static void draw_heads(struct image *to, const struct contact_sheet *s, const struct plan *p)
{
    font_draw(to, MARGIN, MARGIN, "step", 1, DIM);
    for (int c = 0; c < s->columns; c++) {
        char text[64];
        const int most = p->cell_w / FONT_ADVANCE;
        snprintf(text, sizeof(text), "%s", s->prompts[c]);
        if (most < (int)sizeof(text))
            text[most] = 0;
        font_draw(to, MARGIN + SIDE + c * (p->cell_w + GAP), MARGIN, text, 1, DIM);
    }
}

/* Writes a PNG. A picture that is missing or cannot be read is a grey cell; a step without any picture has no row. Of
 * more than CONTACT_SHEET_ROWS steps as many are shown, evenly spread, the first and the last among them. Pictures are
 * enlarged to about 128 pixels, or shrunk to 256. */
static int contact_sheet_write(const struct contact_sheet *s, const char *path, struct err *err)
{
    struct plan p;
    struct image im;
    if (choose_rows(&p, s, err) < 0)
        return -1;
    measure(&p, s);
    if (image_create(&im, 2 * MARGIN + SIDE + s->columns * (p.cell_w + GAP),
                     2 * MARGIN + HEAD + p.rows * (p.cell_h + GAP), err) < 0)
        return -1;
    draw_heads(&im, s, &p);
    int rc = 0;
    for (int row = 0; row < p.rows && rc == 0; row++)
        rc = draw_row(&im, s, &p, row, err);
    if (rc == 0)
        rc = image_write_png(&im, path, err);
    image_free(&im);
    return rc;
}

struct train;

enum { PIECE = 1 << 20 };

/* The average of a trained tensor, if there is one; else the tensor. */
static const struct state_part *part_of(const struct train *t, const struct state *s, int tensor)
{
    const struct layout *l = model_layout(step_model(t->step));
    for (int i = s->weights; t->spec.optim.ema > 0 && layout_at(l, tensor)->kind == TENSOR_PARAM && i < s->len; i++)
        if (s->part[i].tensor == tensor && strncmp(s->part[i].name, "ema.", 4) == 0)
            return &s->part[i];
    return &s->part[tensor];
}

/* Numbers [from, from + n) of the tensor, as far as this rank saves them, and else 0. */
static void take(float *piece, const struct state_part *p, size_t from, size_t n)
{
    const size_t low = p->save_from > from ? p->save_from : from;
    const size_t high = p->save_to < from + n ? p->save_to : from + n;
    memset(piece, 0, n * sizeof(*piece));
    if (low < high)
        memcpy(piece + (low - from), p->data + (low - p->from), (high - low) * sizeof(*piece));
}

static int gather_tensor(struct train *t, const struct state_part *p, float *piece, float *to)
{
    for (size_t from = 0; from < p->count; from += PIECE) {
        const size_t n = p->count - from < PIECE ? p->count - from : PIECE;
        take(piece, p, from, n);
        if (dist_all_reduce(t->dist, piece, n, DIST_F32, DIST_SUM, &t->err) < 0)
            return train_ranks_failed(t);
        if (train_ranks_wait(t) < 0)
            return -1;
        if (to)
            memcpy(to + from, piece, n * sizeof(*piece));
    }
    return 0;
}

/* A collective of all ranks. `weights`: on rank 0 the host view of a model of the run's layout, which gets the weights
 * or, if the run keeps one, their moving average; NULL on the others. */
static int train_gather(struct train *t, float *weights)
{
    const struct layout *l = model_layout(step_model(t->step));
    struct state s = {0};
    float *piece = malloc(PIECE * sizeof(*piece));
    int rc = piece ? params_pull(t->params, &t->err) : err_set(&t->err, ERR_MEMORY, "out of memory to gather weights");
    if (rc == 0)
        rc = params_state(t->params, &s, &t->err);
    for (int i = 0; rc == 0 && i < s.weights; i++)
        rc = gather_tensor(t, part_of(t, &s, i), piece, weights ? weights + layout_at(l, i)->offset : NULL);
    state_free(&s);
    free(piece);
    return rc;
}

struct validation {
    struct train         *t;
    const char          **text;
    int                   n;
    struct sample_prompts prompts;
    struct err            err;   /* of drawing; that of ranks is in t->err */
};

/* --- waiting ranks --------------------------------------------------------------------------- */

/* What rank 0 does. */
enum { OVER, DRAWING, GATHERING };

/* Rank 0 tells it. */
static int pulse(struct train *t, int32_t *drawing)
{
    return t->env->world_size > 1 ? train_ranks_broadcast(t, drawing, sizeof(*drawing)) : 0;
}

static int follow(struct train *t)
{
    uint64_t heard = 0;
    for (int32_t drawing = DRAWING; drawing != OVER;) {
        if (pulse(t, &drawing) < 0 || (drawing == GATHERING && train_gather(t, NULL) < 0))
            return -1;
        flight_work(t->flight, ++heard, 0);
    }
    return 0;
}

static bool tick(void *arg, double share)
{
    struct validation *v = arg;
    int32_t drawing = DRAWING;
    flight_work(v->t->flight, (uint64_t)(1000 * share), 1000);
    return !progress_stop_asked(v->t->progress) && pulse(v->t, &drawing) == 0;
}

/* A failure is that of the ranks, in t->err; `err` says that there are no pictures. */
static int gather(struct train *t, float *weights, struct err *err)
{
    int32_t drawing = GATHERING;
    if (pulse(t, &drawing) == 0 && train_gather(t, weights) == 0)
        return 0;
    return err_set(err, t->err.code, "%s", t->err.text);
}

/* --- files ----------------------------------------------------------------------------------- */

static void name(void *arg, char path[CONTACT_SHEET_PATH], int64_t step, int column)
{
    const struct train *t = arg;
    snprintf(path, CONTACT_SHEET_PATH, "%s/samples/prompt-%02d.step-%08lld.png", t->dir, column + 1, (long long)step);
}

static bool all_exist(struct train *t, int n)
{
    char path[CONTACT_SHEET_PATH];
    for (int i = 0; i < n; i++) {
        name(t, path, t->at, i);
        if (access(path, R_OK) < 0)
            return false;
    }
    return true;
}

/* All steps up to now that may have a row; the caller frees them. */
static int64_t *list_steps(const struct train *t, int *n)
{
    const int64_t every = t->spec.validate.every;
    int64_t *all = calloc((size_t)(t->at / every) + 2, sizeof(*all));
    *n = 0;
    for (int64_t step = 0; all && step < t->at; step += every)
        all[(*n)++] = step;
    if (all)
        all[(*n)++] = t->at;
    return all;
}

static int write_sheet(struct validation *v, char path[CONTACT_SHEET_PATH])
{
    int rows;
    int64_t *steps = list_steps(v->t, &rows);
    const struct contact_sheet sheet = {.prompts = v->text, .columns = v->n, .steps = steps, .rows = rows, .name = name,
                                        .arg = v->t};
    snprintf(path, CONTACT_SHEET_PATH, "%s/samples/prompts.png", v->t->dir);
    const int rc = steps ? contact_sheet_write(&sheet, path, &v->err)
                         : err_set(&v->err, ERR_MEMORY, "out of memory for a contact sheet");
    free(steps);
    return rc;
}

static int write_picture(struct validation *v, struct picture_decoder *d, const float *latents, int i)
{
    char path[CONTACT_SHEET_PATH], tag[64];
    struct image im;
    const struct subject *s = &v->prompts.of[i];
    if (picture_decoder_draw(d, &im, latents + s->at, s->height, s->width, &v->err) < 0)
        return -1;
    name(v->t, path, v->t->at, i);
    const int rc = image_write_png(&im, path, &v->err);
    image_free(&im);
    snprintf(tag, sizeof(tag), "prompts/%02d %.40s", i + 1, v->text[i]);
    if (rc == 0)
        train_events_picture(v->t, tag, path);
    return rc;
}

/* --- drawing --------------------------------------------------------------------------------- */

static int list_prompts(struct validation *v)
{
    const json_t *list = v->t->spec.validate.prompts;
    v->n = (int)json_array_size(list);
    v->text = calloc((size_t)v->n, sizeof(*v->text));
    if (!v->text)
        return err_set(&v->err, ERR_MEMORY, "out of memory for %d prompts", v->n);
    for (int i = 0; i < v->n; i++)
        v->text[i] = json_string_value(json_array_get(list, (size_t)i));
    return 0;
}

static float *draw(struct validation *v)
{
    const struct validate_config *c = &v->t->spec.validate;
    const struct train_draw how = {.steps = c->steps, .guidance = c->guidance, .seed = c->seed,
                                   .method = c->euler ? SAMPLER_EULER : SAMPLER_FLOW_DPM,
                                   .first = v->t->at == 0 && !params_updates_all(v->t->params), .gather = gather};
    if (sample_prompts_of_captions(&v->prompts, v->t->data, v->text, v->n, &v->err) < 0)
        return NULL;
    return train_draw(v->t, &v->prompts, &how, tick, v, &v->err);
}

/* The decoder is in memory only when the sampler is not. */
static int decode(struct validation *v, const float *latents)
{
    struct picture_decoder decoder;
    char dir[CONTACT_SHEET_PATH];
    snprintf(dir, sizeof(dir), "%s/samples", v->t->dir);
    if (scratch_mkdirs(dir, &v->err) < 0 || picture_decoder_open(&decoder, v->t->data, &v->t->spec, &v->err) < 0)
        return -1;
    int rc = 0;
    for (int i = 0; i < v->n && rc == 0; i++) {
        rc = write_picture(v, &decoder, latents, i);
        if (rc == 0 && !tick(v, (double)(i + 1) / v->n))
            rc = err_set(&v->err, ERR_CONFLICT, "stopped while pictures are drawn");
    }
    picture_decoder_close(&decoder);
    return rc;
}

static void tell(struct validation *v, const char *path, double took)
{
    progress_sample(v->t->progress, v->t->at, path);
    printf("pictures: %d prompt%s at step %lld, %.1f s: %s\n", v->n, v->n == 1 ? "" : "s", (long long)v->t->at, took,
           path);
}

static void make(struct validation *v, bool whole)
{
    const double since = train_clock();
    char path[CONTACT_SHEET_PATH];
    float *latents = whole ? draw(v) : NULL;
    if ((!whole || (latents && decode(v, latents) == 0)) && write_sheet(v, path) == 0 && whole)
        tell(v, path, train_clock() - since);
    free(latents);
    sample_prompts_free(&v->prompts);
}

static int lead(struct train *t, bool whole)
{
    struct validation v = {.t = t};
    int32_t drawing = OVER;
    if (list_prompts(&v) == 0)
        make(&v, whole);
    free(v.text);
    if (v.err.code != ERR_NONE && !progress_stop_asked(t->progress)) {
        progress_warning(t->progress, "no pictures of step %lld: %s", (long long)t->at, v.err.text);
        fprintf(stderr, "no pictures: %s\n", v.err.text);
    }
    return t->err.code != ERR_NONE ? -1 : pulse(t, &drawing);
}

/* --- when ------------------------------------------------------------------------------------ */

static bool is_due(const struct train *t)
{
    return t->spec.validate.prompts && !t->env->until &&
           (t->at % t->spec.validate.every == 0 || t->at == t->spec.steps);
}

int train_validate(struct train *t)
{
    if (!is_due(t))
        return 0;
    int32_t whole = t->at == 0 || t->at != t->began || !all_exist(t, (int)json_array_size(t->spec.validate.prompts));
    if (pulse(t, &whole) < 0) /* rank 0 decides */
        return -1;
    flight_enter(t->flight, (uint64_t)t->at, PHASE_VALIDATE);
    return train_is_first(t) ? lead(t, whole) : follow(t);
}
