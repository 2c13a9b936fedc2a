/* SPDX-License-Identifier: Apache-2.0 */
/* test_count.c - sectors, bank conflicts, instructions and FLOPs of kernels whose counts are plain to see */
#include "tests/ptx/ptx_test.h"

#define SHARED ".shared .align 128 .b8 room[8192];\n"

static void test_sectors(void **state)
{
    static const struct {
        const char *access;
        uint64_t    bytes, sectors, ideal;
    } rows[] = {
        {"mad.wide.u32 %d3, %r0, 4, %d4; ld.global.u32 %r1, [%d3];", 128, 4, 4},
        {"mad.wide.u32 %d3, %r0, 4, %d4; ld.global.u32 %r1, [%d3+16];", 128, 5, 4}, /* not on a sector */
        {"mad.wide.u32 %d3, %r0, 128, %d4; ld.global.u32 %r1, [%d3];", 128, 32, 4},
        {"ld.global.u32 %r1, [%d4];", 128, 1, 1}, /* all the same */
        {"mad.wide.u32 %d3, %r0, 16, %d4; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d3];", 512, 16, 16},
        {"mad.wide.u32 %d3, %r0, 2, %d4; ld.global.u16 %h1, [%d3];", 64, 2, 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kernel_run t = {0};
        char text[512];
        snprintf(text, sizeof(text), "add.u64 %%d4, %%d1, 127; and.b64 %%d4, %%d4, -128; %s", rows[i].access);
        must_run(&t, "", text);
        assert_int_equal(t.counts.bytes[0], rows[i].bytes);
        assert_int_equal(t.counts.sectors[0], rows[i].sectors);
        assert_int_equal(t.counts.ideal[0], rows[i].ideal);
        assert_int_equal(t.counts.bytes[1], 0);
    }
}

/* ISA, "cp.async": where none of the bytes are there, global memory is not read. */
static void test_sectors_of_copies(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, SHARED, "add.u64 %d4, %d1, 127; and.b64 %d4, %d4, -128; mad.wide.u32 %d3, %r0, 16, %d4;"
                         "mov.u32 %r1, room; mad.lo.u32 %r1, %r0, 16, %r1; setp.lt.u32 %p1, %r0, 8; selp.u32 %r2, 16, "
                         "0, %p1; cp.async.cg.shared.global [%r1], [%d3], 16, %r2; cp.async.wait_all;");
    assert_int_equal(t.counts.bytes[0], 8 * 16);
    assert_int_equal(t.counts.sectors[0], 4);
    assert_int_equal(t.counts.wavefronts, 4);
}

static void test_bank_conflicts(void **state)
{
    static const struct {
        const char *access;
        uint64_t    passes, ideal;
    } rows[] = {
        {"mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0;", 1, 1},
        {"mad.lo.u32 %r2, %r0, 8, %r1; st.shared.u32 [%r2], %r0;", 2, 1},
        {"mad.lo.u32 %r2, %r0, 128, %r1; st.shared.u32 [%r2], %r0;", 32, 1},
        {"mad.lo.u32 %r2, %r0, 132, %r1; st.shared.u32 [%r2], %r0;", 1, 1}, /* padded by a word */
        {"st.shared.u32 [%r1], 1;", 1, 1},
        {"mad.lo.u32 %r2, %r0, 2, %r1; cvt.u16.u32 %h1, %r0; st.shared.u16 [%r2], %h1;", 1, 1},
        {"mad.lo.u32 %r2, %r0, 8, %r1; st.shared.v2.u32 [%r2], {%r0, %r0};", 2, 2},
        {"mad.lo.u32 %r2, %r0, 16, %r1; st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};", 4, 4},
        {"mad.lo.u32 %r2, %r0, 128, %r1; st.shared.v4.u32 [%r2], {%r0, %r0, %r0, %r0};", 32, 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kernel_run t = {0};
        char text[512];
        snprintf(text, sizeof(text), "mov.u32 %%r1, room; %s", rows[i].access);
        must_run(&t, SHARED, text);
        assert_int_equal(t.counts.wavefronts, rows[i].passes);
        assert_int_equal(t.counts.wavefronts_ideal, rows[i].ideal);
    }
}

/* A fragment of bf16, as ldmatrix reads it: lines of 32 bytes, the distance of which is 32 bytes, then 48. */
static void test_bank_conflicts_of_matrices(void **state)
{
    static const char fill[] = "mov.u32 %r1, room; mov.u32 %r2, 0;\nFILL: mad.lo.u32 %r3, %r2, 32, %r0;"
                               "mad.lo.u32 %r3, %r3, 4, %r1; st.shared.u32 [%r3], 0; add.u32 %r2, %r2, 1;"
                               "setp.lt.u32 %p1, %r2, 8; @%p1 bra FILL; bar.warp.sync -1;\n";
    (void)state;
    for (int ld = 16; ld <= 24; ld += 8) {
        struct kernel_run t = {0};
        char text[1024];
        snprintf(text, sizeof(text), "%s wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%%r4, %%r5, %%r6, %%r7}, "
                 "[%%r1], %d;", fill, ld);
        must_run(&t, SHARED, text);
        assert_int_equal(t.counts.wavefronts, 8 + (ld == 16 ? 8 : 4));
        assert_int_equal(t.counts.wavefronts_ideal, 8 + 4);
    }
}

static void test_instructions_and_flops(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "", "setp.lt.u32 %p1, %r0, 8; @!%p1 bra END; fma.rn.f32 %f1, %f1, %f1, %f1; add.f32 %f1, %f1, %f1;"
                     "ex2.approx.ftz.f32 %f1, %f1; END: add.s64 %d4, %d4, 1;");
    assert_int_equal(t.counts.flops, 8 * (2 + 1 + 1));
    assert_int_equal(t.counts.slots[PTX_FP32], 2);
    assert_int_equal(t.counts.threads[PTX_FP32], 16);
    assert_int_equal(t.counts.slots[PTX_SPECIAL], 1);
    assert_int_equal(t.counts.slots[PTX_INT], 1 + 1 + 2); /* one address, setp, both halves of add.s64 */
    assert_int_equal(t.counts.instructions, 4 + 2 + 3 + 2);
}

/* 8 of 64 blocks stand for all of them. */
static void test_bounds(void **state)
{
    struct ptx_counts c = {.blocks = 64, .blocks_run = 8};
    (void)state;
    c.sectors[0] = 1000000;
    struct ptx_bound b = ptx_bound_of(&c, PTX_A100);
    assert_string_equal(b.by, "memory");
    assert_float_equal(b.ms, 8e6 * 32 / 2.039e12 * 1e3, 1e-9);
    c.tensor_flops = 1000000000000;
    b = ptx_bound_of(&c, PTX_H200);
    assert_string_equal(b.by, "tensor cores");
    assert_float_equal(b.ms, 8e12 / 989e12 * 1e3, 1e-9);
    c.slots[PTX_SPECIAL] = 10000000000;
    b = ptx_bound_of(&c, PTX_H200);
    assert_string_equal(b.by, "exp, 1/x");
    assert_float_equal(b.ms, 8e10 * 32 / 16 / (132 * 1.98e9) * 1e3, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sectors),
        cmocka_unit_test(test_sectors_of_copies),
        cmocka_unit_test(test_bank_conflicts),
        cmocka_unit_test(test_bank_conflicts_of_matrices),
        cmocka_unit_test(test_instructions_and_flops),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
