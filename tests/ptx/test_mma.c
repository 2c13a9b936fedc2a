/* SPDX-License-Identifier: Apache-2.0 */
/* test_mma.c - products by a warp against plain ones; fragments are laid out here by the ISA's formulas */
#include "tests/ptx/ptx_test.h"

#include <math.h>

#define SHARED ".shared .align 128 .b8 room[2048];\n"

/* Small odd numbers with halves: exact in bf16, their sums in fp32. */
static float number(int i)
{
    return (float)((i * 37 + 11) % 29 - 14) / 2;
}

static uint16_t half_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return (uint16_t)(u >> 16);
}

static float at_a(int i, int k)
{
    return number(i * 16 + k);
}

static float at_b(int k, int j)
{
    return number(1000 + k * 16 + j);
}

static float at_c(int i, int j)
{
    return number(2000 + i * 16 + j) * 16;
}

static float product(int i, int j)
{
    float sum = at_c(i, j);
    for (int k = 0; k < 16; k++)
        sum += at_a(i, k) * at_b(k, j);
    return sum;
}

static float read_float(const void *p, size_t i)
{
    float f;
    memcpy(&f, (const float *)p + i, sizeof(f));
    return f;
}

/* To the bit, where assert_float_equal() lets the last one pass. */
static void same(float x, float want)
{
    if (memcmp(&x, &want, sizeof(x)) != 0)
        fail_msg("%.9g, where %.9g was expected", (double)x, (double)want);
}

/* --- mma.m16n8k16: ISA, "Matrix Fragments for mma.m16n8k16" ------------------------------------------ */

/* in: per lane a0..a7, b0..b3 in bf16 (24 bytes), then c0..c3 (16 bytes); 40 bytes each */
static void lay_out(struct kernel_run *t)
{
    for (int l = 0; l < 32; l++) {
        unsigned char *to = (unsigned char *)t->in + 40 * l;
        const int group = l / 4, in = l % 4;
        uint16_t half[12];
        float c[4];
        for (int i = 0; i < 8; i++)
            half[i] = half_of(at_a((i / 2) % 2 == 0 ? group : group + 8, in * 2 + i % 2 + (i < 4 ? 0 : 8)));
        for (int i = 0; i < 4; i++)
            half[8 + i] = half_of(at_b(in * 2 + i % 2 + (i < 2 ? 0 : 8), group));
        for (int i = 0; i < 4; i++)
            c[i] = at_c(i < 2 ? group : group + 8, in * 2 + i % 2);
        memcpy(to, half, sizeof(half));
        memcpy(to + 24, c, sizeof(c));
    }
}

static void test_mma(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    lay_out(&t);
    must_run(&t, "",
             "mad.wide.u32 %d3, %r0, 40, %d1; mad.wide.u32 %d4, %r0, 16, %d0;"
             "ld.global.v2.u32 {%r1, %r2}, [%d3]; ld.global.v2.u32 {%r3, %r4}, [%d3+8];"
             "ld.global.v2.u32 {%r5, %r6}, [%d3+16]; ld.global.v2.f32 {%f1, %f2}, [%d3+24];"
             "ld.global.v2.f32 {%f3, %f4}, [%d3+32];\n"
             "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f5, %f6, %f7, %f8}, {%r1, %r2, %r3, %r4}, "
             "{%r5, %r6}, {%f1, %f2, %f3, %f4};\nst.global.v4.f32 [%d4], {%f5, %f6, %f7, %f8};");
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++)
            same(read_float(t.out, (size_t)l * 4 + (size_t)i), product(i < 2 ? l / 4 : l / 4 + 8, l % 4 * 2 + i % 2));
    assert_int_equal(t.counts.tensor_flops, 2 * 16 * 8 * 16);
}

/* What does not fit into fp32 is cut off: 2^24 + 1.5, and -2^24 - 1.5 (mma.c). */
static void test_sums_are_cut(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "",
             "mov.b32 %r1, 0; mov.b32 %r2, 0x00003fc0; mov.b32 %r3, 0x00003f80; setp.lt.u32 %p1, %r0, 4; "
             "mov.f32 %f1, 0f4B800000;"
             "and.b32 %r4, %r0, 3; setp.eq.u32 %p2, %r4, 0; selp.b32 %r2, %r2, 0, %p2; selp.b32 %r3, %r3, 0, %p2;"
             "mov.f32 %f2, 0f00000000; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f5, %f6, %f7, %f8}, "
             "{%r2, %r1, %r1, %r1}, {%r3, %r1}, {%f1, %f2, %f2, %f2}; st.global.v2.f32 [%d2], {%f5, %f6};");
    same(read_float(t.out, 0), 16777216.0f); /* to nearest it were 16777218 */
    same(read_float(t.out, 1), 1.5f);
}

static void test_mma_needs_all_lanes(void **state)
{
    struct kernel_run t = {0};
    static const char one[] = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f5, %f6, %f7, %f8}, {%r1, %r2, "
                              "%r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};";
    char text[512];
    (void)state;
    snprintf(text, sizeof(text), "setp.lt.u32 %%p1, %%r0, 31; @!%%p1 bra END; %s END:", one);
    must_fail(&t, "", text, "and all must");
    t.threads = 48;
    must_fail(&t, "", one, "a warp of less than 32 threads");
    t.threads = 8;
    must_fail(&t, SHARED, "mov.u32 %r1, room; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r1];",
              "a warp of less than 32 threads");
}

/* inf - inf: of a product, too, as of fp32 0x7fffffff. */
static void test_mma_of_infinity(void **state)
{
    struct kernel_run t = {0};
    uint32_t x;
    (void)state;
    must_run(&t, "",
             "mov.b32 %r1, 0; mov.b32 %r2, 0x00007f80; mov.b32 %r3, 0x0000ff80; mov.f32 %f1, 0f7F800000;"
             "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f5, %f6, %f7, %f8}, {%r2, %r1, %r1, %r1}, "
             "{%r3, %r1}, {%f1, %f1, %f1, %f1}; st.global.f32 [%d2], %f5;");
    memcpy(&x, t.out, sizeof(x));
    assert_int_equal(x, 0x7fffffff);
}

/* --- ldmatrix --------------------------------------------------------------------------------------------- */

/* Number n of the 16 x 16 in shared memory is n; rows of lanes 0 to 7 are the first matrix and so on. */
static void check_ldmatrix(bool trans, int many)
{
    struct kernel_run t = {0};
    static const char *const lists[] = {"", "{%r10}", "{%r10, %r11}", "", "{%r10, %r11, %r12, %r13}"};
    char text[1024];
    snprintf(text, sizeof(text),
             "mov.u32 %%r1, room; mov.u32 %%r2, 0;\nFILL: shl.b32 %%r3, %%r2, 5; add.u32 %%r3, %%r3, %%r0; "
             "cvt.u16.u32 %%h1, "
             "%%r3; mad.lo.u32 %%r4, %%r3, 2, %%r1; st.shared.u16 [%%r4], %%h1; add.u32 %%r2, %%r2, 1; setp.lt.u32 "
             "%%p1, %%r2, 8; @%%p1 bra FILL;\nbar.warp.sync -1; mov.u32 %%r11, 0; mov.u32 %%r12, 0; mov.u32 %%r13, 0;"
             "mad.lo.u32 %%r5, %%r0, 16, %%r1; ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 %s, [%%r5];"
             "mad.wide.u32 %%d3, %%r0, 16, %%d0; st.global.v4.u32 [%%d3], {%%r10, %%r11, %%r12, %%r13};",
             many, trans ? ".trans" : "", lists[many]);
    must_run(&t, SHARED, text);
    for (int l = 0; l < 32; l++)
        for (int k = 0; k < many; k++) {
            const int row = l / 4, col = l % 4 * 2, first = 64 * k; /* 8 rows of 8 */
            const int low = trans ? first + col * 8 + row : first + row * 8 + col;
            const int high = trans ? first + (col + 1) * 8 + row : low + 1;
            uint32_t x;
            memcpy(&x, (const uint32_t *)(const void *)t.out + 4 * l + k, sizeof(x));
            assert_int_equal(x, low | high << 16);
        }
}

static void test_ldmatrix(void **state)
{
    (void)state;
    for (int many = 1; many <= 4; many *= 2) {
        check_ldmatrix(false, many);
        check_ldmatrix(true, many);
    }
}

/* --- wmma: what a fragment looks like inside is nobody's business ------------------------------------------- */

/* in: a at 0, b at 512 (16 x 16 bf16 each, by rows or columns), c at 1024 by rows; out by rows or columns */
static void check_wmma(const char *a, const char *b, const char *d)
{
    struct kernel_run t = {0};
    char text[1536];
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            const uint16_t x = half_of(at_a(i, j)), y = half_of(at_b(i, j));
            const float z = at_c(i, j);
            memcpy((char *)t.in + 2 * (a[0] == 'r' ? i * 16 + j : j * 16 + i), &x, 2);
            memcpy((char *)t.in + 512 + 2 * (b[0] == 'r' ? i * 16 + j : j * 16 + i), &y, 2);
            memcpy((char *)t.in + 1024 + 4 * (i * 16 + j), &z, 4);
        }
    snprintf(text, sizeof(text),
             "mov.u32 %%r20, 16;\n"
             "wmma.load.a.sync.aligned.%s.m16n16k16.global.bf16 {%%r1, %%r2, %%r3, %%r4}, [%%d1], %%r20;\n"
             "wmma.load.b.sync.aligned.%s.m16n16k16.bf16 {%%r5, %%r6, %%r7, %%r8}, [%%d1+512], 16;\n"
             "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%%f1, %%f2, %%f3, %%f4, %%f5, %%f6, %%f7, "
             "%%f8}, [%%d1+1024], 16;\n"
             "wmma.mma.sync.aligned.%s.%s.m16n16k16.f32.bf16.bf16.f32 {%%f11, %%f12, %%f13, %%f14, %%f15, "
             "%%f16, %%f17, %%f18}, "
             "{%%r1, %%r2, %%r3, %%r4}, {%%r5, %%r6, %%r7, %%r8}, {%%f1, %%f2, %%f3, %%f4, %%f5, %%f6, %%f7, %%f8};\n"
             "wmma.store.d.sync.aligned.%s.m16n16k16.global.f32 [%%d0], {%%f11, %%f12, %%f13, %%f14, %%f15, "
             "%%f16, %%f17, %%f18}, %%r20;",
             a, b, a, b, d);
    must_run(&t, "", text);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            same(read_float(t.out, (size_t)(d[0] == 'r' ? i * 16 + j : j * 16 + i)), product(i, j));
    assert_int_equal(t.counts.tensor_flops, 2 * 16 * 16 * 16);
}

static void test_wmma(void **state)
{
    (void)state;
    check_wmma("row", "row", "row");
    check_wmma("row", "col", "row");
    check_wmma("col", "row", "col");
    check_wmma("col", "col", "row");
}

static void test_matrices_that_are_refused(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_fail(&t, "", "wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r1, %r2, %r3, %r4}, [%d1], "
        "20;", "not aligned");
    must_fail(&t, "", "wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r1, %r2, %r3, %r4}, [%d2], "
        "16;", "names another matrix");
    must_fail(&t, "", "wmma.load.a.sync.aligned.row.m16n16k16.global.bf16 {%r1, %r2, %r3, %r4}, [%d1+7936], "
        "16;", "which is in no allocation");
    must_fail(&t, SHARED, "mov.u32 %r9, room; wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {%r1, %r2, "
        "%r3, %r4}, [%r9], 16;",
              "that no thread of the block has written");
    must_fail(&t, SHARED, "mov.u32 %r9, room; mad.lo.u32 %r8, %r0, 8, %r9; add.u32 %r8, %r8, 8; "
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%r8];",
              "misaligned: 16 bytes");
    must_fail(&t, "", "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f5, %f6, %f7, %f8}, {%r1, %r2}, "
        "{%r5}, {%f1, %f2, "
              "%f3, %f4};", "does not know");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mma),
        cmocka_unit_test(test_sums_are_cut),
        cmocka_unit_test(test_mma_needs_all_lanes),
        cmocka_unit_test(test_mma_of_infinity),
        cmocka_unit_test(test_ldmatrix),
        cmocka_unit_test(test_wmma),
        cmocka_unit_test(test_matrices_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
