/* SPDX-License-Identifier: Apache-2.0 */
/* ptx_test.h - hand-written kernels for the tests of the interpreter
 *
 * A kernel "k" with parameters `out` and `in`, pointers to OUT bytes each, and registers %p, %h (16 bits), %r and %f
 * (32), %d (64), 32 of each.  %d0 is out, %d1 is in, %r0 the thread, %d2 out + 8 times the thread.
 */
#ifndef PTX_TEST_H
#define PTX_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/ptx/count.h"
#include "tests/ptx/ptx.h"

enum { OUT = 8192 };

struct kernel_run {
    uint64_t          out[OUT / 8] __attribute__((aligned(64))), in[OUT / 8];
    char              why[PTX_WHY];
    struct ptx_counts counts;
    unsigned          threads, blocks;
    size_t            shared;
};

static bool find_array(void *of, uint64_t at, uint64_t *from, uint64_t *to)
{
    const struct kernel_run *t = of;
    const uint64_t arrays[2] = {(uint64_t)(uintptr_t)t->out, (uint64_t)(uintptr_t)t->in};
    for (int i = 0; i < 2; i++)
        if (at >= arrays[i] && at < arrays[i] + OUT) {
            *from = arrays[i];
            *to = arrays[i] + OUT;
            return true;
        }
    return false;
}

/* `before`: declarations of the module. False: t->why. */
static bool run_kernel(struct kernel_run *t, const char *before, const char *body)
{
    static const char *const head =
        ".visible .entry k(.param .u64 out, .param .u64 in)\n{\n.reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<32>;"
        ".reg .f32 %f<32>; .reg .b64 %d<32>;\nld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; mov.u32 %r0, %tid.x;"
        "mad.wide.u32 %d2, %r0, 8, %d0;\n";
    char text[16384];
    const uint64_t params[2] = {(uint64_t)(uintptr_t)t->out, (uint64_t)(uintptr_t)t->in};
    snprintf(text, sizeof(text), ".version 8.0\n.target sm_80\n.address_size 64\n%s\n%s%s\nret;\n}\n", before, head,
             body);
    struct ptx_module *m = ptx_parse("test.ptx", text, t->why);
    if (!m)
        return false;
    memset(&t->counts, 0, sizeof(t->counts));
    const struct ptx_launch l = {.entry = ptx_find(m, "k"), .grid = {t->blocks ? t->blocks : 1, 1, 1},
                                 .block = {t->threads ? t->threads : 32, 1, 1}, .shared = t->shared,
                                 .params = params, .memory = {find_array, t}, .counts = &t->counts};
    const bool ok = ptx_run(&l, t->why);
    ptx_free(m);
    return ok;
}

static inline void must_run(struct kernel_run *t, const char *before, const char *body)
{
    if (!run_kernel(t, before, body))
        fail_msg("%s", t->why);
}

/* It is refused, for that reason. */
static inline void must_fail(struct kernel_run *t, const char *before, const char *body, const char *reason)
{
    if (run_kernel(t, before, body))
        fail_msg("passed, where this was expected: %s", reason);
    if (!strstr(t->why, reason))
        fail_msg("\"%s\" is not in: %s", reason, t->why);
}

#endif
