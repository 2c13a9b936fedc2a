/* SPDX-License-Identifier: Apache-2.0 */
/* test_warp.c - lanes that part and meet, shuffles, memory, barriers; and what is reported */
#include "tests/ptx/ptx_test.h"

#define SHARED ".shared .align 16 .b8 room[256];\n.extern .shared .align 16 .b8 more[];\n"

/* --- control flow --------------------------------------------------------------------------------- */

static void test_sides_of_a_branch_meet_again(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "",
             "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, 0;\n"
             "@%p1 bra EVEN;\nadd.u32 %r2, %r2, 10; setp.gt.u32 %p2, %r0, 15; @%p2 bra FAR; add.u32 %r2, %r2, 1;\n"
             "bra.uni FAR;\nEVEN: add.u32 %r2, %r2, 20;\nFAR: vote.sync.ballot.b32 %r3, %p1, -1;\n" /* all are here */
             "shl.b32 %r2, %r2, 4; and.b32 %r3, %r3, 15; or.b32 %r2, %r2, %r3; st.global.u32 [%d2], %r2;");
    for (int l = 0; l < 32; l++)
        assert_int_equal(t.out[l], (l % 2 == 0 ? 20 : l > 15 ? 10 : 11) << 4 | 5);
}

static void test_loops_of_different_lengths(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "",
             "mov.u32 %r1, 0; mov.u32 %r2, 0;\nLOOP: setp.ge.u32 %p1, %r1, %r0; @%p1 bra DONE;\n"
             "add.u32 %r1, %r1, 1; and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @!%p2 bra LOOP;\n"
             "add.u32 %r2, %r2, %r1; bra LOOP;\nDONE: shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;\n"
             "st.global.u32 [%d2], %r4;");
    for (int l = 0; l < 32; l++) {
        const int n = (l ^ 1) / 2;
        assert_int_equal(t.out[l], n * (n + 1));
    }
}

static void test_lanes_leave_early(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "", "setp.gt.u32 %p1, %r0, 20; @%p1 ret; setp.lt.u32 %p2, %r0, 3; @%p2 bra OUT;\n"
                     "st.global.u32 [%d2], 7; bra.uni END; OUT: st.global.u32 [%d2], 9; exit; END:");
    for (int l = 0; l < 32; l++)
        assert_int_equal(t.out[l], l > 20 ? 0 : l < 3 ? 9 : 7);
}

static void test_threads_and_blocks(void **state)
{
    struct kernel_run t = {.threads = 50, .blocks = 3};
    (void)state;
    must_run(&t, "", "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0;"
                     "mad.wide.u32 %d3, %r3, 8, %d0; mov.u32 %r4, %nctaid.x; shl.b32 %r4, %r4, 8; mov.u32 %r5, "
                     "%laneid;"
                     "or.b32 %r4, %r4, %r5; mov.u32 %r6, %warpid; shl.b32 %r6, %r6, 16; or.b32 %r4, %r4, %r6;"
                     "st.global.u32 [%d3], %r4;");
    for (int i = 0; i < 150; i++)
        assert_int_equal(t.out[i], 3 << 8 | i % 50 % 32 | i % 50 / 32 << 16);
    assert_int_equal(t.out[150], 0);
}

/* --- shuffles, votes, vectors ---------------------------------------------------------------------- */

/* ISA, "shfl.sync", for widths of 32 and 8: where a number comes from, and whether it is in range. */
static void check_shuffle(const char *mode, int b, int width, int (*from)(int lane, int b, int width))
{
    struct kernel_run t = {0};
    char text[512];
    const int c = (32 - width) << 8 | (mode[0] == 'u' ? 0 : 31);
    snprintf(text, sizeof(text), "add.u32 %%r1, %%r0, 100; shfl.sync.%s.b32 %%r2|%%p1, %%r1, %d, %d, 0xffffffff;"
             "selp.u32 %%r3, 1000, 0, %%p1; add.u32 %%r2, %%r2, %%r3; st.global.u32 [%%d2], %%r2;", mode, b, c);
    must_run(&t, "", text);
    for (int l = 0; l < 32; l++) {
        const int j = from(l, b, width);
        assert_int_equal(t.out[l], j < 0 ? 100 + l : 1100 + j);
    }
}

static int from_up(int l, int b, int width)
{
    return l % width >= b ? l - b : -1;
}

static int from_down(int l, int b, int width)
{
    return l % width + b < width ? l + b : -1;
}

static int from_butterfly(int l, int b, int width)
{
    return (l ^ b) / width <= l / width ? l ^ b : -1;
}

static int from_index(int l, int b, int width)
{
    return l / width * width + b % width;
}

static void test_shuffles(void **state)
{
    (void)state;
    for (int width = 8; width <= 32; width += 24)
        for (int b = 0; b < 32; b += 3) {
            check_shuffle("up", b, width, from_up);
            check_shuffle("down", b, width, from_down);
            check_shuffle("bfly", b, width, from_butterfly);
            check_shuffle("idx", b, width, from_index);
        }
}

static void test_masks_of_shuffles(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "", "setp.lt.u32 %p1, %r0, 16; @!%p1 bra END; shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xffff;"
                     "st.global.u32 [%d2], %r1; END:");
    assert_int_equal(t.out[4], 5);
    must_fail(&t, "", "setp.lt.u32 %p1, %r0, 16; @!%p1 bra END; shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1; END:",
              "has lanes that are elsewhere");
    must_fail(&t, "", "setp.lt.u32 %p1, %r0, 16; @!%p1 bra END; shfl.sync.bfly.b32 %r1, %r0, 16, 31, 0xffff; END:",
              "takes a number from lane 16, which is not here");
    must_fail(&t, "", "shfl.sync.bfly.b32 %r1, %r0, 1, 31, 0xffff;", "does not have the lane that executes it");
}

/* ISA, "shfl.sync", "vote.sync": those that have ended are not waited for; "bar.warp.sync": they are. */
static void test_masks_of_lanes_that_have_ended(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "", "setp.gt.u32 %p1, %r0, 15; @%p1 exit; shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;"
                     "setp.lt.u32 %p2, %r0, 3; vote.sync.ballot.b32 %r2, %p2, -1; st.global.v2.u32 [%d2], {%r1, %r2};");
    for (uint64_t l = 0; l < 32; l++)
        assert_int_equal(t.out[l], l > 15 ? 0 : (l ^ 1) | 7ull << 32);
    must_fail(&t, "", "setp.gt.u32 %p1, %r0, 15; @%p1 exit; shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1;",
              "takes a number from lane 16, which is not here");
    must_fail(&t, "", "setp.gt.u32 %p1, %r0, 15; @%p1 exit; bar.warp.sync -1;", "has lanes that are elsewhere");
}

static void test_votes(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "", "setp.lt.u32 %p1, %r0, 5; vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;"
                     "vote.sync.uni.pred %p4, %p1, -1; vote.sync.ballot.b32 %r1, %p1, -1; selp.u32 %r2, 0x100, 0, %p2;"
                     "or.b32 %r1, %r1, %r2; selp.u32 %r2, 0x200, 0, %p3; or.b32 %r1, %r1, %r2; selp.u32 %r2, "
                     "0x400, 0, %p4;"
                     "or.b32 %r1, %r1, %r2; st.global.u32 [%d2], %r1;");
    assert_int_equal(t.out[9], 0x11f);
}

static void test_vectors_of_registers(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "", "mov.u32 %r1, 0x12345678; mov.b32 {%h1, %h2}, %r1; mov.b32 %r2, {%h2, %h1};"
                     "mov.b64 %d3, {%r2, %r1}; mov.b64 {_, %r3}, %d3; mov.b32 %r4, {0, %h1};"
                     "{ .reg .b32 %tmp; xor.b32 %tmp, %r3, %r4; mov.b64 %d3, {%r2, %tmp}; }"
                     "st.global.v2.u32 [%d2], {%r2, %r3}; st.global.u64 [%d1], %d3;");
    assert_int_equal(t.out[3], 0x1234567856781234);
    assert_int_equal(t.in[0], 0x444c567856781234);
}

/* --- memory ---------------------------------------------------------------------------------------- */

static void test_sizes_of_loads(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    for (int i = 0; i < OUT / 8; i++)
        t.in[i] = 0x8182838485868788;
    must_run(&t, "", "ld.global.u8 %r1, [%d1]; ld.global.s8 %r2, [%d1+1]; ld.global.nc.u16 %h1, [%d1+2];"
                     "ld.global.v4.u16 {%h2, %h3, %h4, %h5}, [%d1+8]; ld.global.v2.f32 {%f1, %f2}, [%d1+8];"
                     "cvt.u32.u16 %r3, %h1; cvt.u32.u16 %r4, %h5; add.u32 %r1, %r1, %r3; add.u32 %r1, %r1, %r4;"
                     "st.global.v2.b32 [%d2], {%r1, %r2};");
    assert_int_equal(t.out[0], (0x88u + 0x8586 + 0x8182) | (uint64_t)0xffffff87 << 32);
}

static void test_local_and_generic_memory(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, SHARED,
             ".local .align 8 .b8 depot[64]; mov.u64 %d3, depot; cvta.local.u64 %d4, %d3;\n"
             "and.b32 %r1, %r0, 7; mad.wide.u32 %d5, %r1, 8, %d4; st.u32 [%d5], %r0; st.local.u32 [%d3+4], 5;\n"
             "cvta.to.local.u64 %d6, %d5; ld.local.u32 %r2, [%d6];\n"
             "mov.u64 %d7, room; cvta.shared.u64 %d8, %d7; mad.wide.u32 %d8, %r0, 4, %d8; st.u32 [%d8], %r2;\n"
             "cvta.to.shared.u64 %d9, %d8; cvt.u32.u64 %r3, %d9; ld.shared.u32 %r4, [%r3]; "
             "cvta.to.global.u64 %d2, %d2;\n"
             "ld.local.u32 %r5, [%d3+4]; add.u32 %r4, %r4, %r5; st.u32 [%d2], %r4;");
    for (int l = 0; l < 32; l++)
        assert_int_equal(t.out[l], l + 5);
}

static void test_constants_of_the_module(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, ".global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n.const .u32 five[2] = {5, 6};\n",
             "mov.u64 %d3, table; ld.global.u32 %r1, [%d3+4]; ld.const.u32 %r2, [five+4]; "
             "st.global.v2.u32 [%d2], {%r1, %r2};");
    assert_int_equal(t.out[0], 0x608070605);
}

static void test_addresses_that_are_refused(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_fail(&t, "", "ld.global.u32 %r1, [%d1+8192];", "which is in no allocation");
    must_fail(&t, "", "mad.wide.u32 %d3, %r0, 264, %d1; ld.global.v2.u32 {%r1, %r2}, [%d3+8];",
              "which is in no allocation (block 0 0 0, thread 31 of k)");
    must_fail(&t, "", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1+8];", "misaligned: 16 bytes");
    must_fail(&t, "", "ld.global.u32 %r1, [%d1+2];", "misaligned: 4 bytes");
    must_fail(&t, "", "ld.global.u64 %d4, [%d1+8184]; ld.global.u8 %r1, [%d1+8192];", "test.ptx:9: ");
    must_fail(&t, "", "ld.global.u32 %r1, [0];", "which is in no allocation");
    must_fail(&t, "", "ld.param.u64 %d3, [in+8];", "they have 16 bytes");
    must_fail(&t, "", ".local .b32 one; mov.u64 %d3, one; st.local.u32 [%d3+16], 1;", "a thread has 4 bytes");
    must_fail(&t, SHARED, "mov.u32 %r1, room; st.shared.u32 [%r1+256], 1;", "out of bounds of every array");
    t.shared = 64;
    must_fail(&t, SHARED, "mov.u32 %r1, more; st.shared.u32 [%r1+64], 1;", "out of bounds, the block has");
    must_run(&t, SHARED, "setp.eq.u32 %p1, %r0, 0; mov.u32 %r1, more; @%p1 st.shared.u32 [%r1+60], 1;");
}

/* --- what orders accesses to shared memory ------------------------------------------------------------- */

/* Each thread writes its number and reads that of another warp. */
#define EXCHANGE(barrier)                                                                                      \
    "mov.u32 %r1, room; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0;\n" barrier                      \
    "xor.b32 %r3, %r0, 32; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3]; st.global.u32 [%d2], %r4;"

static void test_a_barrier_between_warps(void **state)
{
    struct kernel_run t = {.threads = 64};
    (void)state;
    must_run(&t, SHARED, EXCHANGE("bar.sync 0;\n"));
    for (int i = 0; i < 64; i++)
        assert_int_equal(t.out[i], i ^ 32);
    must_fail(&t, SHARED, EXCHANGE(""), "that no thread of the block has written");
    must_fail(&t, SHARED, EXCHANGE("bar.sync 0; st.shared.u32 [%r2], %r0;\n"), "was read by thread");
    must_fail(&t, SHARED, EXCHANGE("bar.sync 0;\n") "st.shared.u32 [%r2], 1;", "and no barrier between");
    must_run(&t, SHARED, EXCHANGE("bar.sync 0;\n") "bar.sync 0; st.shared.u32 [%r2], 1;");
    must_fail(&t, SHARED, "mov.u32 %r1, room; st.shared.u32 [%r1], %r0;", "writes what was written by thread 31");
}

static void test_a_barrier_within_a_warp(void **state)
{
    struct kernel_run t = {0};
    static const char first[] = "mov.u32 %r1, room; mad.lo.u32 %r2, %r0, 4, %r1; st.shared.u32 [%r2], %r0;";
    static const char second[] = "xor.b32 %r3, %r0, 1; mad.lo.u32 %r3, %r3, 4, %r1; ld.shared.u32 %r4, [%r3];";
    char text[1024];
    (void)state;
    snprintf(text, sizeof(text), "%s%s", first, second);
    must_fail(&t, SHARED, text, "reads what was written by thread 1, and no barrier between (block 0 0 0, thread 0");
    snprintf(text, sizeof(text), "%s bar.warp.sync -1; %s", first, second);
    must_run(&t, SHARED, text);
    snprintf(text, sizeof(text), "%s bar.warp.sync -1; %s st.shared.u32 [%%r2], 1;", first, second);
    must_fail(&t, SHARED, text, "writes what was read by thread");
    snprintf(text, sizeof(text), "%s bar.warp.sync -1; %s bar.warp.sync -1; st.shared.u32 [%%r2], 1;", first, second);
    must_run(&t, SHARED, text);
}

static void test_barriers_that_not_all_come_to(void **state)
{
    struct kernel_run t = {.threads = 64};
    (void)state;
    must_fail(&t, "", "setp.lt.u32 %p1, %r0, 32; @%p1 bra END; bar.sync 0; END:",
              "warp 0 has ended, and others wait at this barrier");
    must_fail(&t, "", "setp.lt.u32 %p1, %r0, 40; @%p1 bra END; bar.sync 0; "
        "END:", "only lanes 0xffffff00 of the warp's");
    must_fail(&t, "", "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 0; bra B; A: bar.sync 0; B:", "another barrier");
    must_fail(&t, "", "setp.lt.u32 %p1, %r0, 40; @%p1 ret; bar.sync 0;", "come to this barrier");
    must_run(&t, "", "bar.sync 0; barrier.sync.aligned 0; membar.cta;");
}

/* --- copies ------------------------------------------------------------------------------------------------ */

static const char copy[] = "mov.u32 %r1, room; shl.b32 %r2, %r0, 3; add.u32 %r3, %r1, %r2; cvt.u64.u32 %d3, "
    "%r2; add.u64 "
                           "%d3, %d1, %d3; cp.async.ca.shared.global [%r3], [%d3], 8; cp.async.commit_group;";

static void test_asynchronous_copies(void **state)
{
    struct kernel_run t = {0};
    char text[1024];
    (void)state;
    for (int i = 0; i < 64; i++)
        t.in[i] = (uint64_t)i * 1000001;
    snprintf(text, sizeof(text), "%s cp.async.wait_group 0; ld.shared.u64 %%d4, [%%r3]; st.global.u64 [%%d2], "
        "%%d4;", copy);
    must_run(&t, SHARED, text);
    assert_memory_equal(t.out, t.in, sizeof(uint64_t) * 32);
    snprintf(text, sizeof(text), "%s cp.async.wait_group 1; ld.shared.u64 %%d4, [%%r3];", copy);
    must_fail(&t, SHARED, text, "whose cp.async nobody has waited for");
    must_fail(&t, SHARED, copy, "before its cp.async were waited for");
    must_run(&t, SHARED, "mov.u32 %r1, room; shl.b32 %r2, %r0, 3; add.u32 %r3, %r1, %r2; mov.u32 %r4, 4; "
        "cp.async.ca.shared.global "
                         "[%r3], [%d1+8], 8, %r4; cp.async.wait_all; ld.shared.u64 %d4, [%r3]; "
                         "st.global.u64 [%d2], %d4;");
    assert_int_equal(t.out[17], 1000001);
    must_fail(&t, SHARED, "mov.u32 %r1, room; cp.async.cg.shared.global [%r1], [%d1+8], 16;", "misaligned");
    must_fail(&t, SHARED, "mov.u32 %r1, room; setp.eq.u32 %p1, %r0, 0; cp.async.ca.shared.global [%r1], [%d1], 8, %p1;",
              "operand 4 is a predicate");
    must_fail(&t, SHARED, "cp.async.wait_group %r1;", "does not know");
    must_fail(&t, SHARED, "cp.async.wait_all 1;", "does not know");
    must_fail(&t, SHARED, "mov.u32 %r1, room; cp.async.cg.shared.global [%r1], [%d1], 8;", "does not know");
}

/* ISA, "cp.async": no other write to the same place until it is waited for. */
static void test_writes_beside_a_copy(void **state)
{
    struct kernel_run t = {0};
    static const char late[] = "writes shared memory at 0 whose cp.async nobody has waited for";
    char text[1024];
    (void)state;
    snprintf(text, sizeof(text), "%s st.shared.u32 [%%r3], 1; cp.async.wait_all;", copy);
    must_fail(&t, SHARED, text, late);
    snprintf(text, sizeof(text), "%s cp.async.ca.shared.global [%%r3], [%%d3], 8; cp.async.wait_all;", copy);
    must_fail(&t, SHARED, text, late);
    snprintf(text, sizeof(text), "%s cp.async.wait_all; st.shared.u32 [%%r3], 1;", copy);
    must_run(&t, SHARED, text);
}

/* Of 16 bytes the last 4 are behind the end of the array: zeros, and not read; of none, wherever that is. */
static void test_copies_of_less(void **state)
{
    struct kernel_run t = {0};
    static const char before[] =
        SHARED ".global .align 16 .b8 twelve[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};\n";
    static const char some[] =
        "mov.u32 %%r1, room; setp.eq.u32 %%p1, %%r0, 0; mov.u32 %%r2, %u; mov.u64 %%d3, twelve;"
        "@%%p1 cp.async.cg.shared.global [%%r1], [%%d3+%u], 16, %%r2; cp.async.wait_all;"
        "@%%p1 ld.shared.u64 %%d4, [%%r1+8]; @%%p1 st.global.u64 [%%d2], %%d4;";
    char text[1024];
    (void)state;
    snprintf(text, sizeof(text), some, 12, 0);
    must_run(&t, before, text);
    assert_int_equal(t.out[0], 0x0c0b0a09);
    snprintf(text, sizeof(text), some, 0, 4096);
    must_run(&t, before, text);
    assert_int_equal(t.out[0], 0);
    snprintf(text, sizeof(text), some, 13, 0);
    must_fail(&t, before, text, "which is in no allocation");
}

/* As inline assembly of the toolkit's headers has it: registers without %, one word with .reg, names with ::. */
static void test_forms_of_inline_assembly(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    t.in[0] = 0x4000;
    must_run(&t, SHARED,
             "{.reg.b16 hl, hu; .reg .b32 c;\n mov.b32 c, 0x3f803f80U; mov.b32 {hl, hu}, c; mov.b32 c, {0, hl};"
             "st.global.u32 [%d2], c; }\n{ .reg .b32 c; mov.u32 c, room; mad.lo.u32 c, %r0, 4, c;"
             "cp.async.ca.shared::cta.global.L2::128B [c], [%d1], 4; cp.async.wait_all; ld.shared::cta.u32 %r1, [c];"
             "st.global.u32 [%d2+4], %r1; }");
    assert_int_equal(t.out[3], 0x40003f800000);
    must_fail(&t, "", "setp.eq.u32 %p1, %r0, 9; @%p1 trap;", "the kernel gives up (block 0 0 0, thread 9");
    must_fail(&t, "", "{ .reg .b32 c; }\nmov.b32 c, 1;", "no variable c");
}

/* --- refusals of the parser ---------------------------------------------------------------------------------- */

static void test_forms_that_are_not_known(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_fail(&t, "", "\nadd.x32 %r1, %r1, %r1;", "test.ptx:10: add.x32 with 3 operands is a form");
    must_fail(&t, "", "add.s32 %r1, %r1;", "add.s32 with 2 operands is a form");
    must_fail(&t, "", "add.s32 %r1, %r1, %d1;", "%d1 has 8 bytes, 4 are needed");
    must_fail(&t, "", "add.s32 %r1, %r1, %p1;", "operand 3 is a predicate");
    must_fail(&t, "", "add.s32 %r1, %r1, %r99;", "no register %r99");
    must_fail(&t, "", "add.s32 5, %r1, %r2;", "the result is no register");
    must_fail(&t, "", "bra NOWHERE;", "no label NOWHERE");
    must_fail(&t, "", "ld.global.u32 %r1, [nothing];", "no variable nothing");
    must_fail(&t, "", "atom.global.add.u32 %r1, [%d1], 1;", "does not know");
    must_fail(&t, "", "cvt.rn.relu.bf16.f32 %h1, %f1;", "does not know");
    must_fail(&t, "", "ld.global.acquire.u32 %r1, [%d1];", "does not know");
    must_fail(&t, "", "shfl.sync.best.b32 %r1, %r0, 1, 31, -1;", "does not know");
    must_fail(&t, "", "shfl.sync.up.b32 %r1|%r2, %r0, 1, 31, -1;", "operand 1 is no predicate");
    must_fail(&t, "", "vote.sync.all.b32 %r1, %p1, -1;", "does not know");
    must_fail(&t, "", "vote.sync.ballot.b32 %r1, %r2, -1;", "operand 2 is no predicate");
    must_fail(&t, "", "add.f32 %f1, %f1, 0d3FF0000000000000;", "a constant of 8 bytes, 4 are needed");
    must_fail(&t, "", "add.f32 %f1, %f1, -0f3F800000;", "where a number was expected");
    must_fail(&t, "", "add.f32 %f1, %f1, 0f3F80;", "where a number was expected");
    must_fail(&t, ".func f() { ret; }", "", "'.func' is not known here");
    must_fail(&t, "", "add.s32 %r1, %r1, 0x;", "where a number was expected");
}

/* ISA, "cvt": rounding where digits are lost, and only there; to a whole number only where one is made. */
static void test_conversions_that_are_refused(void **state)
{
    static const char *const texts[] = {
        "cvt.s32.f32 %r1, %f1;", "cvt.rn.s32.f32 %r1, %f1;", "cvt.f32.s32 %f1, %r1;", "cvt.rni.f32.s32 %f1, %r1;",
        "cvt.f32.f64 %f1, %d3;", "cvt.rzi.f32.f64 %f1, %d3;", "cvt.rn.f64.f32 %d3, %f1;", "cvt.rn.f32.f32 %f1, %f1;",
        "cvt.bf16.f32 %h1, %f1;", "cvt.rn.f32.bf16 %f1, %h1;", "cvt.rn.s32.s64 %r1, %d3;", "cvt.ftz.s32.s64 %r1, %d3;",
        "cvt.rn.sat.bf16.f32 %h1, %f1;"};
    struct kernel_run t = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        must_fail(&t, "", texts[i], "does not know");
}

/* ISA, "Operand Size Exceeding Instruction-Type Size", "Vectors", "ld.global.nc", "st" */
static void test_accesses_that_are_refused(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_fail(&t, "", "ld.global.u32 %h1, [%d1];", "a register of 2 bytes, at least 4 are needed");
    must_fail(&t, "", "st.global.u64 [%d1], %r1;", "a register of 4 bytes, at least 8 are needed");
    must_fail(&t, "", "cvt.u64.u32 %r1, %r2;", "a register of 4 bytes, at least 8 are needed");
    must_fail(&t, "", "cvt.u32.u64 %r1, %r2;", "a register of 4 bytes, at least 8 are needed");
    must_fail(&t, "", "ld.global.u32 %p1, [%d1];", "a register of");
    must_fail(&t, "", "ld.global.v4.u64 {%d3, %d4, %d5, %d6}, [%d1];", "does not know");
    must_fail(&t, SHARED, "ld.shared.nc.u32 %r1, [room];", "does not know");
    must_fail(&t, "", "st.global.nc.u32 [%d1], %r1;", "does not know");
    must_fail(&t, ".const .u32 one[1] = {1};\n", "st.const.u32 [one], %r1;", "does not know");
    must_fail(&t, "", "st.param.u64 [in], %d3;", "does not know");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sides_of_a_branch_meet_again),
        cmocka_unit_test(test_loops_of_different_lengths),
        cmocka_unit_test(test_lanes_leave_early),
        cmocka_unit_test(test_threads_and_blocks),
        cmocka_unit_test(test_shuffles),
        cmocka_unit_test(test_masks_of_shuffles),
        cmocka_unit_test(test_masks_of_lanes_that_have_ended),
        cmocka_unit_test(test_votes),
        cmocka_unit_test(test_vectors_of_registers),
        cmocka_unit_test(test_sizes_of_loads),
        cmocka_unit_test(test_local_and_generic_memory),
        cmocka_unit_test(test_constants_of_the_module),
        cmocka_unit_test(test_addresses_that_are_refused),
        cmocka_unit_test(test_a_barrier_between_warps),
        cmocka_unit_test(test_a_barrier_within_a_warp),
        cmocka_unit_test(test_barriers_that_not_all_come_to),
        cmocka_unit_test(test_asynchronous_copies),
        cmocka_unit_test(test_writes_beside_a_copy),
        cmocka_unit_test(test_copies_of_less),
        cmocka_unit_test(test_forms_of_inline_assembly),
        cmocka_unit_test(test_forms_that_are_not_known),
        cmocka_unit_test(test_conversions_that_are_refused),
        cmocka_unit_test(test_accesses_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
