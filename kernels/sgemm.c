/* SPDX-License-Identifier: Apache-2.0 */
/* sgemm.c - see sgemm.h */
#include "kernels/sgemm.h"

#include <cblas.h>
#include <stddef.h>

#include "kernels/thread_pool.h"

struct product {
    CBLAS_TRANSPOSE ta, tb;
    int             rows, cols, depth, lda, ldb;
};

static struct product product_of(enum sgemm_kind kind, int m, int k, int n)
{
    switch (kind) {
    case SGEMM_INPUT:
        return (struct product){CblasNoTrans, CblasNoTrans, m, k, n, n, k};
    case SGEMM_WEIGHT:
        return (struct product){CblasTrans, CblasNoTrans, n, k, m, n, k};
    case SGEMM_FORWARD:
        break;
    }
    return (struct product){CblasNoTrans, CblasTrans, m, n, k, k, k};
}

/* Rows or columns [i, i+1) / parts of the result, whichever there are more of. */
static void run_part(const struct product *p, float *c, const float *a, const float *b, int i, int parts)
{
    const int rows_cut = p->rows >= p->cols, total = rows_cut ? p->rows : p->cols;
    const size_t from = (size_t)((long)total * i / parts);
    const size_t to = (size_t)((long)total * (i + 1) / parts);
    const int part = (int)(to - from);
    if (part == 0)
        return;
    if (rows_cut)
        cblas_sgemm(CblasRowMajor, p->ta, p->tb, part, p->cols, p->depth, 1.0f,
                    a + from * (p->ta == CblasTrans ? 1 : (size_t)p->lda), p->lda, b, p->ldb, 0.0f,
                    c + from * (size_t)p->cols, p->cols);
    else
        cblas_sgemm(CblasRowMajor, p->ta, p->tb, p->rows, part, p->depth, 1.0f, a, p->lda,
                    b + from * (p->tb == CblasTrans ? (size_t)p->ldb : 1), p->ldb, 0.0f, c + from, p->cols);
}

struct split {
    struct product p;
    float         *c;
    const float   *a, *b;
    int            parts;
};

static void split_run(const void *arg, int part)
{
    const struct split *s = arg;
    run_part(&s->p, s->c, s->a, s->b, part, s->parts);
}

void sgemm_run(enum sgemm_kind kind, enum sgemm_threads threads, float *c, const float *a,
               const float *b, int m, int k, int n)
{
    const struct split s = {product_of(kind, m, k, n), c, a, b, thread_pool_size()};
    if (threads == SGEMM_SPLIT) {
        thread_pool_run(s.parts, split_run, &s);
        return;
    }
    openblas_set_num_threads(s.parts);
    run_part(&s.p, c, a, b, 0, 1);
    openblas_set_num_threads(1);
}

int sgemm_thread_count(void)
{
    return thread_pool_size();
}
