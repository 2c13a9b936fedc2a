/* SPDX-License-Identifier: Apache-2.0 */
/* mma.c - products of matrices by a warp: wmma, mma.sync, ldmatrix
 *
 * ISA, "Warp Level Matrix Multiply-Accumulate Instructions". How the lanes of wmma hold a fragment is not
 * specified; here lane l holds the numbers 8 l to 8 l + 7 of the matrix by rows, which is not what a GPU does, so
 * that a kernel that counts on a layout fails.  Fragments of mma and ldmatrix are those of the ISA.
 *
 * ISA, "mma": the order and rounding of the sums is not specified, nor are denormal inputs; sums have at least single
 * precision. A100 adds eight products to the sum at once and cuts off what does not fit: Fasi, Higham, Mikaitis and
 * Pranesh, "Numerical behavior of NVIDIA tensor cores" (PeerJ Computer Science 7:e330, 2021), which was before H100.
 * So do we: in double, then towards zero to fp32; a NaN is the canonical one, as of fp32.
 */
#include "tests/ptx/run.h"

#include <math.h>

enum { SIDE = 16, STEP = 8 };

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

static float cut(double x)
{
    const float f = (float)x;
    if (isnan(x))
        return float_of(0x7fffffff);
    if (!(fabs((double)f) > fabs(x)) || isinf(x))
        return f;
    return float_of(bits_of(f) - 1); /* nearer to zero; from infinity the largest number */
}

/* ISA, "wmma.load", "mma", "ldmatrix": all threads of a warp, none of which has ended. */
static void need_warp(struct ptx_run *r)
{
    ptx_need_all(r);
    if (r->now->born != ~0u)
        ptx_fail(r, -1, "a warp of less than 32 threads");
}

/* d[i][j] = c[i][j] + sum of a[i][k] b[k][j] */
static void multiply(int rows, int cols, const float a[SIDE][SIDE], const float b[SIDE][SIDE], float c[SIDE][SIDE])
{
    for (int i = 0; i < rows; i++)
        for (int first = 0; first < SIDE; first += STEP) {
            double sum[SIDE];
            for (int j = 0; j < cols; j++)
                sum[j] = (double)c[i][j];
            for (int k = first; k < first + STEP; k++)
                for (int j = 0; j < cols; j++)
                    sum[j] += (double)a[i][k] * (double)b[k][j];
            for (int j = 0; j < cols; j++)
                c[i][j] = cut(sum[j]);
        }
}

/* Number i of a fragment of two bf16 a register, whose registers are the sources from `first` on. */
static float half_of(const struct ptx_run *r, int first, int i, int lane)
{
    const uint32_t pair = (uint32_t)ptx_source(r, first + i / 2, lane);
    return float_of(i % 2 ? pair & 0xffff0000u : pair << 16);
}

/* --- ISA, "wmma.load", "wmma.store", "wmma.mma" -------------------------------------------------- */

/* The place of number n (by rows) of the matrix, of which lanes hold 8 each. */
static uint64_t number_at(const struct ptx_ins *i, uint64_t base, uint32_t ld, int n)
{
    const unsigned row = (unsigned)n / SIDE, col = (unsigned)n % SIDE;
    return base + (uint64_t)i->bytes * (i->layout_a == 'r' ? (uint64_t)row * ld + col : (uint64_t)col * ld + row);
}

/* All lanes name the same matrix: base on 32 bytes, rows on 16. */
static uint64_t matrix(struct ptx_run *r, uint32_t *ld)
{
    uint64_t at[PTX_LANES];
    need_warp(r);
    ptx_addresses(r, 0, r->ins->offset, at);
    *ld = (uint32_t)ptx_source(r, 1, 0);
    for (int l = 1; l < PTX_LANES; l++)
        if (at[l] != at[0] || (uint32_t)ptx_source(r, 1, l) != *ld)
            ptx_fail(r, l, "names another matrix than lane 0");
    if (at[0] % 32 || *ld * r->ins->bytes % 16 || *ld < SIDE)
        ptx_fail(r, -1, "a matrix at %#llx with rows of %u numbers: not aligned to 32 and 16 bytes, or too short",
                 (unsigned long long)at[0], *ld);
    return at[0];
}

/* Shared memory is counted as ldmatrix reads it: lines (rows, or columns) of 32 bytes in two halves, eight of which
 * are a pass at best. */
static void count_lines(struct ptx_run *r, uint64_t base, uint32_t ld)
{
    uint64_t at[PTX_LANES];
    for (int l = 0; l < PTX_LANES; l++)
        at[l] = base + (uint64_t)(l % SIDE) * ld * r->ins->bytes + (uint64_t)(l / SIDE) * 16;
    ptx_count_access(r, PTX_SHARED, at, 16, false);
}

/* All else like the accesses of a layout as of mma: two neighbours of a row at once, where a row is contiguous. */
static void count_pairs(struct ptx_run *r, enum ptx_space space, uint64_t base, uint32_t ld, bool write)
{
    const struct ptx_ins *i = r->ins;
    const int each = i->layout_a == 'r' ? 2 : 1;
    for (int e = 0; e < 8; e += each) {
        uint64_t at[PTX_LANES];
        for (int l = 0; l < PTX_LANES; l++) {
            const int row = l / 4 + 8 * (e / 2 % 2), col = l % 4 * 2 + e % 2 + 8 * (e / 4);
            at[l] = number_at(i, base, ld, (i->which == 'b' ? col : row) * SIDE + (i->which == 'b' ? row : col));
        }
        ptx_count_access(r, space, at, (unsigned)each * i->bytes, write);
    }
}

static void count_fragment(struct ptx_run *r, enum ptx_space space, uint64_t base, uint32_t ld, bool write)
{
    if (space == PTX_SHARED && r->ins->bytes == 2)
        count_lines(r, base >= PTX_SHARED_WINDOW ? base - PTX_SHARED_WINDOW : base, ld);
    else
        count_pairs(r, space, base, ld, write);
}

static void each_number(struct ptx_run *r, void **place, bool write)
{
    uint32_t ld;
    const uint64_t base = matrix(r, &ld);
    enum ptx_space space = r->ins->space;
    for (int n = 0; n < SIDE * SIDE; n++) {
        space = r->ins->space;
        place[n] = ptx_place(r, n / 8, &space, number_at(r->ins, base, ld, n), r->ins->bytes, write);
    }
    if (r->launch->counts)
        count_fragment(r, space, base, ld, write);
}

void ptx_wmma_load(struct ptx_run *r)
{
    void *place[SIDE * SIDE];
    each_number(r, place, false);
    const int per = 4 / r->ins->bytes;
    for (int l = 0; l < PTX_LANES; l++)
        for (int k = 0; k < r->ins->nd; k++) {
            uint64_t x = 0;
            for (int h = 0; h < per; h++)
                x |= ptx_get(place[8 * l + k * per + h], r->ins->bytes, 0) << 16 * h;
            ptx_result(r, k, l, x);
        }
}

void ptx_wmma_store(struct ptx_run *r)
{
    void *place[SIDE * SIDE];
    each_number(r, place, true);
    for (int l = 0; l < PTX_LANES; l++)
        for (int k = 0; k < 8; k++)
            ptx_set(place[8 * l + k], 4, 0, ptx_source(r, 2 + k, l));
}

void ptx_wmma_product(struct ptx_run *r)
{
    float a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    need_warp(r);
    for (int n = 0; n < SIDE * SIDE; n++) {
        const int i = n / SIDE, j = n % SIDE, lane = n / 8;
        a[i][j] = half_of(r, 0, n % 8, lane);
        b[i][j] = half_of(r, 4, n % 8, lane);
        c[i][j] = float_of((uint32_t)ptx_source(r, 8 + n % 8, lane));
    }
    multiply(SIDE, SIDE, a, b, c);
    for (int n = 0; n < SIDE * SIDE; n++)
        ptx_result(r, n % 8, n / 8, bits_of(c[n / SIDE][n % SIDE]));
}

/* --- ISA, "Matrix Fragments for mma.m16n8k16" ------------------------------------------------------ */

void ptx_product(struct ptx_run *r)
{
    float a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    need_warp(r);
    for (int l = 0; l < PTX_LANES; l++) {
        const int group = l >> 2, in = l & 3;
        for (int i = 0; i < 8; i++)
            a[group + (i < 2 || (i >= 4 && i < 6) ? 0 : 8)][in * 2 + (i & 1) + (i < 4 ? 0 : 8)] = half_of(r, 0, i, l);
        for (int i = 0; i < 4; i++) {
            b[in * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = half_of(r, 4, i, l);
            c[group + (i < 2 ? 0 : 8)][in * 2 + (i & 1)] = float_of((uint32_t)ptx_source(r, 6 + i, l));
        }
    }
    multiply(SIDE, 8, a, b, c);
    for (int l = 0; l < PTX_LANES; l++)
        for (int i = 0; i < 4; i++)
            ptx_result(r, i, l, bits_of(c[(l >> 2) + (i < 2 ? 0 : 8)][(l & 3) * 2 + (i & 1)]));
}

/* --- ISA, "ldmatrix": rows of 16 bytes, whose addresses lanes 0 to 7 hold for the first matrix, 8 to 15 for the
 * second and so on; lane l gets numbers 2 (l % 4) and the next of row l / 4, with .trans of column l / 4 */

static void count_rows(struct ptx_run *r, enum ptx_space space, const uint64_t *at)
{
    const uint32_t active = r->active;
    r->active = r->ins->many == 4 ? ~0u : (1u << 8 * r->ins->many) - 1;
    ptx_count_access(r, space, at, 16, false);
    r->active = active;
}

void ptx_load_matrix(struct ptx_run *r)
{
    uint64_t at[PTX_LANES];
    const uint16_t *row[PTX_LANES];
    enum ptx_space space = PTX_GENERIC;
    need_warp(r);
    ptx_addresses(r, 0, r->ins->offset, at);
    for (int l = 0; l < 8 * r->ins->many; l++) {
        space = r->ins->space;
        row[l] = ptx_place(r, l, &space, at[l], 16, false);
        if (space != PTX_SHARED)
            ptx_fail(r, l, "ldmatrix of what is not shared memory");
    }
    for (int k = 0; k < r->ins->many; k++)
        for (int l = 0; l < PTX_LANES; l++) {
            const int i = l / 4, j = l % 4 * 2;
            const uint32_t x = r->ins->trans ? row[8 * k + j][i] | (uint32_t)row[8 * k + j + 1][i] << 16
                                             : row[8 * k + i][j] | (uint32_t)row[8 * k + i][j + 1] << 16;
            ptx_result(r, k, l, x);
        }
    if (r->launch->counts)
        count_rows(r, space, at);
}
