/* SPDX-License-Identifier: Apache-2.0 */
/* curve.c - see curve.h */
#include "engine/train/curve.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/contract/err.h"
#include "engine/data/image.h"
#include "engine/train/font.h"
#include "engine/train/loss_log.h"

enum { WIDTH = 960, HEIGHT = 540, LEFT = 84, RIGHT = 24, TOP = 44, BOTTOM = 52, CELLS = 400 };
enum { INK = 0x303030, GRID = 0xE4E4E4, RAW = 0xC3CFDD, MEAN = 0x1F5FA8 };

/* Maps values to 0..1 along each axis. */
struct axes {
    double first, last;  /* steps */
    double low, high;    /* loss, or its logarithm */
    bool   logarithmic;
};

static double scaled(const struct axes *a, double loss)
{
    return a->logarithmic ? log10(fmax(loss, 1e-30)) : loss;
}

static struct axes axes_make(const struct loss_log_point *p, int n)
{
    double low = p[0].loss, high = p[0].loss;
    for (int i = 1; i < n; i++) {
        low = fmin(low, p[i].loss);
        high = fmax(high, p[i].loss);
    }
    struct axes a = {.first = (double)p[0].step, .last = (double)p[n - 1].step};
    a.logarithmic = low > 0 && high / low > 4;
    a.low = scaled(&a, low);
    a.high = scaled(&a, high);
    double pad = fmax((a.high - a.low) * 0.05, 1e-9);
    a.low -= pad;
    a.high += pad;
    if (a.last <= a.first)
        a.last = a.first + 1;
    return a;
}

static double x_of(const struct axes *a, double step)
{
    return (step - a->first) / (a->last - a->first);
}

static double y_of(const struct axes *a, double loss)
{
    return (scaled(a, loss) - a->low) / (a->high - a->low);
}

/* Tick k of the loss axis, or NAN after the last: 1-2-5 steps, or 1-2-5 of each decade. */
static double loss_tick(const struct axes *a, int k)
{
    static const double digits[] = {1, 2, 5};
    if (a->logarithmic) {
        int decade = (int)floor(a->low) + k / 3;
        double tick = digits[k % 3] * pow(10, decade);
        return log10(tick) > a->high ? NAN : tick;
    }
    double rough = (a->high - a->low) / 5;
    double unit = pow(10, floor(log10(rough)));
    double step = rough / unit < 2 ? 2 * unit : rough / unit < 5 ? 5 * unit : 10 * unit;
    double tick = (ceil(a->low / step) + k) * step;
    return tick > a->high ? NAN : tick;
}

static double step_tick(const struct axes *a)
{
    double rough = (a->last - a->first) / 8;
    double unit = pow(10, floor(log10(fmax(rough, 1))));
    double ratio = rough / unit;
    return fmax(1, ratio < 1 ? unit : ratio < 2 ? 2 * unit : ratio < 5 ? 5 * unit : 10 * unit);
}

static void line(struct image *im, double x0, double y0, double x1, double y1, int thick, uint32_t rgb)
{
    int n = (int)fmax(fabs(x1 - x0), fabs(y1 - y0)) + 1;
    for (int i = 0; i <= n; i++) {
        double t = (double)i / n;
        image_fill(im, (int)lrint(x0 + t * (x1 - x0)) - thick / 2,
                   (int)lrint(y0 + t * (y1 - y0)) - thick / 2, thick, thick, rgb);
    }
}

static double px(const struct axes *a, double step)
{
    return LEFT + x_of(a, step) * (WIDTH - LEFT - RIGHT);
}

static double py(const struct axes *a, double loss)
{
    return HEIGHT - BOTTOM - y_of(a, loss) * (HEIGHT - TOP - BOTTOM);
}

static void draw_axes(struct image *im, const struct axes *a)
{
    char text[32];
    for (int k = 0; k < 64; k++) {
        double tick = loss_tick(a, k);
        if (isnan(tick))
            break;
        if (scaled(a, tick) < a->low)
            continue;
        int y = (int)lrint(py(a, tick));
        image_fill(im, LEFT, y, WIDTH - LEFT - RIGHT, 1, GRID);
        snprintf(text, sizeof(text), "%.4g", tick);
        font_draw(im, LEFT - 10 - font_width(text, 2), y - 6, text, 2, INK);
    }
    double unit = step_tick(a);
    for (double s = ceil(a->first / unit) * unit; s <= a->last; s += unit) {
        int x = (int)lrint(px(a, s));
        image_fill(im, x, TOP, 1, HEIGHT - TOP - BOTTOM, GRID);
        snprintf(text, sizeof(text), "%.0f", s);
        font_draw(im, x - font_width(text, 2) / 2, HEIGHT - BOTTOM + 10, text, 2, INK);
    }
    image_fill(im, LEFT, TOP, 1, HEIGHT - TOP - BOTTOM, INK);
    image_fill(im, LEFT, HEIGHT - BOTTOM, WIDTH - LEFT - RIGHT, 1, INK);
    font_draw(im, LEFT, 16, a->logarithmic ? "loss (logarithmic)" : "loss", 2, INK);
    font_draw(im, WIDTH - RIGHT - font_width("step", 2), HEIGHT - 20, "step", 2, INK);
}

/* Mean over the points within half a window of point i. */
static double mean_at(const struct loss_log_point *p, int n, int i, int half)
{
    int lo = i - half < 0 ? 0 : i - half, hi = i + half >= n ? n - 1 : i + half;
    double sum = 0;
    for (int k = lo; k <= hi; k++)
        sum += p[k].loss;
    return sum / (hi - lo + 1);
}

int curve_png(const struct loss_log_point *points, int n, const char *path, struct err *err)
{
    struct image im;
    struct axes a = axes_make(points, n);
    char text[96];
    int half = n / 100;
    if (image_create(&im, WIDTH, HEIGHT, err) < 0)
        return -1;
    draw_axes(&im, &a);
    for (int i = 1; i < n; i++)
        line(&im, px(&a, (double)points[i - 1].step), py(&a, points[i - 1].loss),
             px(&a, (double)points[i].step), py(&a, points[i].loss), 1, RAW);
    for (int i = 1; i < n; i++)
        line(&im, px(&a, (double)points[i - 1].step), py(&a, mean_at(points, n, i - 1, half)),
             px(&a, (double)points[i].step), py(&a, mean_at(points, n, i, half)), 3, MEAN);
    snprintf(text, sizeof(text), "%.4g at step %lld", mean_at(points, n, n - 1, half), (long long)points[n - 1].step);
    font_draw(&im, WIDTH - RIGHT - font_width(text, 2), 16, text, 2, MEAN);
    int rc = image_write_png(&im, path, err);
    image_free(&im);
    return rc;
}

/* One point per column that has any: their mean. Returns how many. */
static int bin_columns(struct loss_log_point *bins, int columns, const struct loss_log_point *p, int n)
{
    double first = (double)p[0].step, span = fmax((double)p[n - 1].step - first, 1);
    int len = 0, before = -1, count = 0;
    for (int i = 0; i < n; i++) {
        int c = (int)fmin(((double)p[i].step - first) / span * columns, columns - 1);
        if (c != before) {
            bins[len++] = (struct loss_log_point){p[i].step, 0};
            count = 0;
            before = c;
        }
        bins[len - 1].loss += (p[i].loss - bins[len - 1].loss) / ++count;
    }
    bins[len - 1].step = p[n - 1].step;
    return len;
}

/* The row of dots of each column, row 0 at the top; a column without a point repeats. */
static void rows_of_dots(int *row, int columns, int rows, const struct axes *a,
                         const struct loss_log_point *bins, int len)
{
    for (int c = 0, i = 0; c < columns; c++) {
        while (i + 1 < len && x_of(a, (double)bins[i + 1].step) * columns < c + 1)
            i++;
        row[c] = (int)fmin((1 - y_of(a, bins[i].loss)) * rows, rows - 1);
    }
}

/* Whether dot (c, r) is on the curve; a vertical stroke joins neighbouring columns. */
static bool on_curve(const int *row, int c, int r)
{
    int before = c > 0 ? row[c - 1] : row[c];
    int lo = before < row[c] ? before + 1 : row[c], hi = before > row[c] ? before - 1 : row[c];
    return r == row[c] || (r >= lo && r <= hi);
}

static void put_braille(FILE *to, unsigned dots)
{
    fprintf(to, "%c%c%c", 0xE2, (int)(0xA0 | dots >> 6), (int)(0x80 | (dots & 0x3F)));
}

static void label(FILE *to, const struct axes *a, int r, int height)
{
    if (r != 0 && r != height - 1 && r != height / 2) {
        fprintf(to, "%9s", "");
        return;
    }
    double y = a->high - (a->high - a->low) * (r + 0.5) / height;
    fprintf(to, "%8.3g ", a->logarithmic ? pow(10, y) : y);
}

void curve_print(FILE *to, const struct loss_log_point *points, int n, int width, int height, bool utf8)
{
    static const unsigned char bits[4][2] = {
        {0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int cells = width - 11 < 10 ? 10 : width - 11 > CELLS ? CELLS : width - 11;
    int row[2 * CELLS];
    int across = utf8 ? 2 : 1, down = utf8 ? 4 : 1;
    struct loss_log_point bins[2 * CELLS];
    int len = bin_columns(bins, cells * across, points, n);
    struct axes a = axes_make(bins, len);
    rows_of_dots(row, cells * across, height * down, &a, bins, len);
    for (int r = 0; r < height; r++) {
        label(to, &a, r, height);
        fputs(utf8 ? "\u2502" : "|", to);
        for (int c = 0; c < cells; c++) {
            unsigned dots = 0;
            for (int y = 0; y < down; y++)
                for (int x = 0; x < across; x++)
                    if (on_curve(row, c * across + x, r * down + y))
                        dots |= bits[y][x];
            if (utf8 && dots)
                put_braille(to, dots);
            else
                fputc(dots ? '*' : ' ', to);
        }
        fputc('\n', to);
    }
    fprintf(to, "%9s%s", "", utf8 ? "\u2514" : "+");
    for (int c = 0; c < cells; c++)
        fputs(utf8 ? "\u2500" : "-", to);
    char last[32];
    snprintf(last, sizeof(last), "step %lld", (long long)points[n - 1].step);
    fprintf(to, "\n%9s %-*lld%s\n", "", cells - (int)strlen(last), (long long)points[0].step, last);
}
