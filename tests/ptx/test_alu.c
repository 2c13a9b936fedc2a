/* SPDX-License-Identifier: Apache-2.0 */
/* test_alu.c - each instruction that computes, on numbers whose result the ISA gives */
#include "tests/ptx/ptx_test.h"

#include <math.h>
#include <stdlib.h>

#define NAN32 0x7fffffffu
#define INF32 0x7f800000u
#define ONE 0x3f800000u
#define ODD 0x3f800001u /* 1 + 2^-23 */
#define TINY 0x00000001u /* the smallest denormal */
#define HALF 0x33800000u /* 2^-24: half of the last bit of 1 */
#define M(x) ((uint32_t)-(x))

static const struct row {
    const char *op, *sizes; /* "w:ww" as in alu.c; cvt has its own, too */
    uint64_t    in[4], want;
} rows[] = {
    {"add.s32", "w:ww", {0x7fffffff, 1}, 0x80000000}, {"add.u32", "w:ww", {0xffffffff, 2}, 1},
    {"add.s64", "d:dd", {0xffffffff, 1}, 0x100000000}, {"add.u64", "d:dd", {~0ull, 1}, 0},
    {"add.s16", "h:hh", {0xffff, 2}, 1}, {"add.u16", "h:hh", {0xff, 1}, 0x100},
    {"sub.s32", "w:ww", {0, 1}, M(1)}, {"sub.u32", "w:ww", {5, 7}, M(2)}, {"sub.s64", "d:dd", {0, 1}, ~0ull},
    {"sub.u64", "d:dd", {1ull << 32, 1}, 0xffffffff}, {"sub.s16", "h:hh", {0, 1}, 0xffff},
    {"sub.u16", "h:hh", {3, 1}, 2},
    {"mul.lo.s32", "w:ww", {M(3), 5}, M(15)}, {"mul.lo.u32", "w:ww", {0x10000, 0x10000}, 0},
    {"mul.lo.s64", "d:dd", {1ull << 33, 3}, 3ull << 33}, {"mul.lo.u64", "d:dd", {1ull << 63, 2}, 0},
    {"mul.lo.s16", "h:hh", {0x100, 0x101}, 0x100}, {"mul.lo.u16", "h:hh", {0xffff, 0xffff}, 1},
    {"mul.hi.s32", "w:ww", {M(1), 1}, M(1)}, {"mul.hi.u32", "w:ww", {0xffffffff, 0xffffffff}, 0xfffffffe},
    {"mul.hi.s64", "d:dd", {~0ull, 1}, ~0ull}, {"mul.hi.u64", "d:dd", {~0ull, ~0ull}, ~0ull - 1},
    {"mul.wide.s32", "d:ww", {M(2), 3}, (uint64_t)-6}, {"mul.wide.u32", "d:ww", {0xffffffff, 2}, 0x1fffffffe},
    {"mul.wide.s16", "w:hh", {0xffff, 2}, M(2)}, {"mul.wide.u16", "w:hh", {0xffff, 2}, 0x1fffe},
    {"mad.lo.s32", "w:www", {3, M(4), 5}, M(7)}, {"mad.lo.u32", "w:www", {0x10000, 0x10000, 9}, 9},
    {"mad.lo.s64", "d:ddd", {1ull << 32, 2, 1}, (2ull << 32) + 1}, {"mad.lo.u64", "d:ddd", {3, 4, 5}, 17},
    {"mad.wide.s32", "d:wwd", {M(1), 8, 4}, (uint64_t)-4}, {"mad.wide.u32", "d:wwd", {0xffffffff, 1, 1}, 1ull << 32},
    {"div.s32", "w:ww", {M(7), 2}, M(3)}, {"div.u32", "w:ww", {M(7), 2}, 0x7ffffffc},
    {"div.s64", "d:dd", {(uint64_t)-7, 2}, (uint64_t)-3}, {"div.u64", "d:dd", {~0ull, 1ull << 63}, 1},
    {"div.s32", "w:ww", {0x80000000, M(1)}, 0x80000000}, {"rem.s32", "w:ww", {0x80000000, M(1)}, 0},
    {"div.s64", "d:dd", {1ull << 63, ~0ull}, 1ull << 63}, {"rem.s64", "d:dd", {1ull << 63, ~0ull}, 0},
    {"rem.s32", "w:ww", {M(7), 2}, M(1)}, {"rem.u32", "w:ww", {7, 4}, 3}, {"rem.s64", "d:dd", {7, (uint64_t)-4}, 3},
    {"rem.u64", "d:dd", {~0ull, 10}, 5},
    {"min.s32", "w:ww", {M(1), 1}, M(1)}, {"min.u32", "w:ww", {M(1), 1}, 1}, {"min.s64", "d:dd", {~0ull, 1}, ~0ull},
    {"min.u64", "d:dd", {~0ull, 1}, 1}, {"max.s32", "w:ww", {M(1), 1}, 1}, {"max.u32", "w:ww", {M(1), 1}, M(1)},
    {"max.s64", "d:dd", {~0ull, 1}, 1}, {"max.u64", "d:dd", {~0ull, 1}, ~0ull},
    {"neg.s32", "w:w", {5}, M(5)}, {"neg.s64", "d:d", {5}, (uint64_t)-5}, {"abs.s32", "w:w", {M(5)}, 5},
    {"abs.s64", "d:d", {(uint64_t)-5}, 5}, {"popc.b32", "w:w", {0xf0f00001}, 9}, {"clz.b32", "w:w", {1}, 31},
    {"bfind.u32", "w:w", {0x00400001}, 22}, {"bfind.u32", "w:w", {0}, M(1)},
    {"bfind.shiftamt.u32", "w:w", {0x00400001}, 9},
    {"clz.b32", "w:w", {0}, 32}, {"brev.b32", "w:w", {1}, 0x80000000},
    {"bfe.u32", "w:www", {0xabcd1234, 8, 12}, 0xd12}, {"bfe.u32", "w:www", {0xffffffff, 28, 12}, 0xf},
    {"bfe.u64", "d:dww", {0xabcd123456789abc, 32, 16}, 0x1234},
    {"bfi.b32", "w:wwww", {0xff, 0, 8, 4}, 0xf00}, {"bfi.b32", "w:wwww", {0xff, 7, 32, 4}, 7},
    {"bfi.b64", "d:ddww", {5, 0xff, 32, 32}, 0x5000000ff},
    {"and.b32", "w:ww", {0xff00, 0x0ff0}, 0x0f00}, {"or.b32", "w:ww", {0xf0, 0x0f}, 0xff},
    {"xor.b32", "w:ww", {0xff, 0x0f}, 0xf0}, {"not.b32", "w:w", {0}, 0xffffffff},
    {"and.b64", "d:dd", {~0ull, 1ull << 40}, 1ull << 40}, {"or.b64", "d:dd", {1, 1ull << 40}, (1ull << 40) + 1},
    {"xor.b64", "d:dd", {~0ull, 1}, ~1ull}, {"not.b64", "d:d", {0}, ~0ull}, {"and.b16", "h:hh", {0xff, 0x10}, 0x10},
    {"or.b16", "h:hh", {1, 2}, 3}, {"xor.b16", "h:hh", {3, 2}, 1}, {"not.b16", "h:h", {0}, 0xffff},
    {"shl.b32", "w:ww", {1, 31}, 0x80000000}, {"shl.b32", "w:ww", {1, 32}, 0},
    {"shl.b64", "d:dw", {1, 63}, 1ull << 63},
    {"shl.b64", "d:dw", {1, 64}, 0}, {"shl.b16", "h:hw", {1, 15}, 0x8000}, {"shr.u32", "w:ww", {0x80000000, 31}, 1},
    {"shr.u32", "w:ww", {0x80000000, 33}, 0}, {"shr.s32", "w:ww", {0x80000000, 40}, 0xffffffff},
    {"shr.u64", "d:dw", {1ull << 63, 63}, 1}, {"shr.s64", "d:dw", {1ull << 63, 70}, ~0ull},
    {"shr.u16", "h:hw", {0x8000, 15}, 1}, {"shr.s16", "h:hw", {0x8000, 20}, 0xffff}, {"shr.b32", "w:ww", {4, 1}, 2},
    {"shr.b64", "d:dw", {1ull << 40, 40}, 1},
    {"shf.l.wrap.b32", "w:www", {0x80000000, 1, 33}, 3}, {"shf.r.wrap.b32", "w:www", {2, 1, 33}, 0x80000001},
    {"shf.l.clamp.b32", "w:www", {7, 1, 40}, 7}, {"shf.r.clamp.b32", "w:www", {7, 1, 40}, 1},
    {"lop3.b32", "w:wwww", {0xf0, 0xcc, 0xaa, 0xe8}, 0xe8},
    {"prmt.b32", "w:www", {0x33221100, 0x77665544, 0x7410}, 0x77441100},
    {"prmt.b32", "w:www", {0x80, 0, 0x8888}, 0xffffffff},
    {"mov.b16", "h:h", {7}, 7}, {"mov.b32", "w:w", {7}, 7}, {"mov.b64", "d:d", {7}, 7},
    {"add.f32", "w:ww", {ONE, HALF}, ONE}, {"add.rn.f32", "w:ww", {ODD, HALF}, 0x3f800002},
    {"add.rz.f32", "w:ww", {ODD, HALF}, ODD}, {"add.rm.f32", "w:ww", {ONE, HALF | 0x80000000}, 0x3f7fffff},
    {"add.rp.f32", "w:ww", {ONE, HALF}, ODD}, {"add.rm.f32", "w:ww", {ONE, HALF}, ONE},
    {"add.f32", "w:ww", {INF32, INF32 | 0x80000000}, NAN32}, {"add.f32", "w:ww", {TINY, TINY}, 2},
    {"add.ftz.f32", "w:ww", {TINY, 0x80000002}, 0}, {"sub.f32", "w:ww", {ONE, ONE}, 0},
    {"sub.rn.f32", "w:ww", {ONE, ODD}, 0xb4000000}, {"sub.rz.f32", "w:ww", {ONE, HALF}, 0x3f7fffff},
    {"sub.rm.f32", "w:ww", {ONE, ONE}, 0x80000000}, {"sub.rp.f32", "w:ww", {ODD, HALF}, ODD},
    {"sub.ftz.f32", "w:ww", {TINY, 0}, 0}, {"mul.f32", "w:ww", {ODD, ODD}, 0x3f800002},
    {"mul.rn.f32", "w:ww", {ODD, ODD}, 0x3f800002}, {"mul.rz.f32", "w:ww", {ODD, ODD}, 0x3f800002},
    {"mul.rp.f32", "w:ww", {ODD, ODD}, 0x3f800003}, {"mul.rm.f32", "w:ww", {ODD, ODD | 0x80000000}, 0xbf800003},
    {"mul.ftz.f32", "w:ww", {TINY, 0x4b800000}, 0}, {"mul.f32", "w:ww", {TINY, 0x4b800000}, 0x01000000},
    {"fma.rn.f32", "w:www", {ODD, ODD, 0xbf800002}, 0x28800000}, /* the product is not rounded */
    {"fma.rz.f32", "w:www", {ODD, ODD, 0}, 0x3f800002}, {"fma.rp.f32", "w:www", {ODD, ODD, 0}, 0x3f800003},
    {"fma.rm.f32", "w:www", {ODD, ODD | 0x80000000, 0}, 0xbf800003},
    {"fma.rn.ftz.f32", "w:www", {TINY, ONE, TINY}, 0},
    {"neg.f32", "w:w", {0}, 0x80000000}, {"abs.f32", "w:w", {0xff800000}, INF32},
    {"min.f32", "w:ww", {NAN32, ONE}, ONE}, {"min.f32", "w:ww", {0, 0x80000000}, 0x80000000},
    {"max.f32", "w:ww", {0x80000000, 0}, 0}, {"max.f32", "w:ww", {NAN32, 0xffc00000}, NAN32},
    {"div.rn.f32", "w:ww", {ONE, 0x40400000}, 0x3eaaaaab}, {"div.rz.f32", "w:ww", {ONE, 0x40400000}, 0x3eaaaaaa},
    {"div.rm.f32", "w:ww", {ONE, 0xc0400000}, 0xbeaaaaab}, {"div.rp.f32", "w:ww", {ONE, 0xc0400000}, 0xbeaaaaaa},
    {"div.full.f32", "w:ww", {0x40c00000, 0x40000000}, 0x40400000}, {"div.approx.f32", "w:ww", {ONE, 0}, INF32},
    {"div.approx.f32", "w:ww", {0x7f000000, 0xff000000}, 0x80000000}, /* above 2^126 the reciprocal is a zero */
    {"div.approx.f32", "w:ww", {INF32, 0x7f000000}, NAN32}, {"div.approx.f32", "w:ww", {INF32, 0x7e800000}, INF32},
    {"div.approx.f32", "w:ww", {0x7e800000, 0x7e800000}, ONE}, {"div.approx.f32", "w:ww", {ONE, INF32}, 0},
    {"div.approx.ftz.f32", "w:ww", {0x7f000000, 0x7e800001}, 0},
    {"div.full.f32", "w:ww", {0x7f000000, 0x7f000000}, ONE},
    {"div.approx.ftz.f32", "w:ww", {TINY, ONE}, 0}, {"rcp.rn.f32", "w:w", {0x40400000}, 0x3eaaaaab},
    {"rcp.approx.f32", "w:w", {0x40800000}, 0x3e800000}, {"copysign.f32", "w:ww", {0x80000000, ONE}, 0xbf800000},
    {"rcp.approx.ftz.f32", "w:w", {TINY}, INF32}, {"sqrt.rn.f32", "w:w", {0x40000000}, 0x3fb504f3},
    {"sqrt.rn.f32", "w:w", {0xbf800000}, NAN32}, {"sqrt.approx.f32", "w:w", {0x40800000}, 0x40000000},
    {"rsqrt.approx.f32", "w:w", {0x40800000}, 0x3f000000}, {"rsqrt.approx.ftz.f32", "w:w", {TINY}, INF32},
    {"ex2.approx.f32", "w:w", {0x40400000}, 0x41000000}, {"ex2.approx.ftz.f32", "w:w", {0xc3000000}, 0},
    {"ex2.approx.ftz.f32", "w:w", {0xff800000}, 0}, {"lg2.approx.f32", "w:w", {0x41000000}, 0x40400000},
    {"lg2.approx.ftz.f32", "w:w", {0}, 0xff800000}, {"sin.approx.f32", "w:w", {0}, 0},
    {"cos.approx.f32", "w:w", {0}, ONE},
    {"tanh.approx.f32", "w:w", {INF32}, ONE},
    {"add.f64", "d:dd", {0x3ff8000000000000, 0x4002000000000000}, 0x400e000000000000},
    {"add.rn.f64", "d:dd", {0x3ff0000000000000, 0x3ca0000000000000}, 0x3ff0000000000000},
    {"sub.f64", "d:dd", {0x3ff0000000000000, 0x3fe0000000000000}, 0x3fe0000000000000},
    {"sub.rn.f64", "d:dd", {0x3ff0000000000000, 0x3c90000000000000}, 0x3ff0000000000000},
    {"sub.rn.f64", "d:dd", {0x3ff0000000000000, 0x3c98000000000000}, 0x3fefffffffffffff},
    {"mul.f64", "d:dd", {0x4008000000000000, 0xc000000000000000}, 0xc018000000000000},
    {"mul.rn.f64", "d:dd", {0x4008000000000000, 0x3fe0000000000000}, 0x3ff8000000000000},
    {"fma.rn.f64", "d:ddd", {0x3ff0000000000001, 0x3feffffffffffffe, 0xbff0000000000000}, 0xb970000000000000},
    {"div.rn.f64", "d:dd", {0x3ff0000000000000, 0x4008000000000000}, 0x3fd5555555555555},
    {"rcp.rn.f64", "d:d", {0x4010000000000000}, 0x3fd0000000000000},
    {"sqrt.rn.f64", "d:d", {0x4000000000000000}, 0x3ff6a09e667f3bcd},
    {"neg.f64", "d:d", {0x3ff0000000000000}, 0xbff0000000000000},
    {"abs.f64", "d:d", {0xbff0000000000000}, 0x3ff0000000000000},
    {"min.f64", "d:dd", {0x3ff0000000000000, 0xbff0000000000000}, 0xbff0000000000000},
    {"min.f64", "d:dd", {0, 1ull << 63}, 1ull << 63}, {"min.f64", "d:dd", {1ull << 63, 0}, 1ull << 63},
    {"max.f64", "d:dd", {0, 1ull << 63}, 0}, {"max.f64", "d:dd", {1ull << 63, 0}, 0},
    {"min.f64", "d:dd", {0x7ff4000000000000, 1}, 1}, {"max.f64", "d:dd", {1, 0x7ff4000000000000}, 1},
    {"max.f64", "d:dd", {0x3ff0000000000000, 0xbff0000000000000}, 0x3ff0000000000000},
    {"cvt.rn.bf16x2.f32", "w:ww", {ONE, 0x40000000}, 0x3f804000}, /* the first operand is the upper half */
    {"cvt.rn.bf16.f32", "h:w", {0x3f808000}, 0x3f80}, {"cvt.rn.bf16.f32", "h:w", {0x3f818000}, 0x3f82},
    {"cvt.rn.bf16.f32", "h:w", {0x3f808001}, 0x3f81}, {"cvt.rn.bf16.f32", "h:w", {NAN32}, 0x7fff},
    {"cvt.rn.bf16.f32", "h:w", {0x7f7fffff}, 0x7f80},
    {"add.rn.bf16x2", "w:ww", {0x3f803f80, 0x40003f80}, 0x40404000}, {"add.bf16x2", "w:ww", {0x3f80, 0x3b80}, 0x3f80},
    {"sub.rn.bf16x2", "w:ww", {0x40403f80, 0x3f803f80}, 0x40000000}, {"sub.bf16x2", "w:ww", {0, 0x3f80}, 0xbf80},
    {"mul.rn.bf16x2", "w:ww", {0x40404040, 0x40003f80}, 0x40c04040}, {"mul.bf16x2", "w:ww", {0x3f81, 0x3f81}, 0x3f82},
    {"fma.rn.bf16x2", "w:www", {0x40404040, 0x40003f80, 0x3f803f80}, 0x40e04080},
    /* 1.0078125^2 = 1.01568604: minus 1.015625 is 2^-14; rounded in between it would be 0 */
    {"fma.rn.bf16", "h:hhh", {0x3f81, 0x3f81, 0xbf82}, 0x3880},
    {"max.bf16x2", "w:ww", {0x3f80ffc0, 0x40003f80}, 0x40003f80},
    {"min.bf16x2", "w:ww", {0x3f803f80, 0x4000bf80}, 0x3f80bf80},
    {"max.bf16x2", "w:ww", {0x00008000, 0x80000000}, 0}, {"min.bf16x2", "w:ww", {0x00008000, 0x80000000}, 0x80008000},
    {"neg.bf16x2", "w:w", {0x3f80bf80}, 0xbf803f80}, {"abs.bf16x2", "w:w", {0xbf80bf80}, 0x3f803f80},
    {"ex2.approx.ftz.bf16x2", "w:w", {0x40400000}, 0x41003f80},
    {"ex2.approx.ftz.bf16x2", "w:w", {0xc3028001}, 0x00003f80}, /* 2^-130 is a denormal */
    {"tanh.approx.bf16x2", "w:w", {0x7f800000}, 0x3f800000},
    /* cvt: sizes of registers */
    {"cvt.s64.s32", "d:w", {M(1)}, ~0ull}, {"cvt.u64.u32", "d:w", {M(1)}, 0xffffffff},
    {"cvt.u32.u64", "w:d", {~0ull}, M(1)},
    {"cvt.s32.s8", "w:w", {0x80}, 0xffffff80}, {"cvt.u32.u8", "w:w", {0x1ff}, 0xff},
    {"cvt.s16.s32", "h:w", {M(2)}, 0xfffe},
    {"cvt.sat.s8.s32", "w:w", {1000}, 127}, {"cvt.sat.s8.s32", "w:w", {M(1000)}, M(128)},
    {"cvt.sat.u8.s32", "w:w", {M(5)}, 0}, {"cvt.sat.u16.u32", "h:w", {70000}, 0xffff},
    {"cvt.sat.s32.u32", "w:w", {0xffffffff}, 0x7fffffff}, {"cvt.sat.u32.s64", "w:d", {1ull << 40}, 0xffffffff},
    {"cvt.rni.s32.f32", "w:w", {0x40200000}, 2}, {"cvt.rni.s32.f32", "w:w", {0x40600000}, 4},
    {"cvt.rzi.s32.f32", "w:w", {0xc02ccccd}, M(2)}, {"cvt.rmi.s32.f32", "w:w", {0xc02ccccd}, M(3)},
    {"cvt.rpi.s32.f32", "w:w", {0x40066666}, 3}, {"cvt.rzi.s32.f32", "w:w", {0x7f000000}, 0x7fffffff},
    {"cvt.rzi.s32.f32", "w:w", {0xff000000}, 0x80000000}, {"cvt.rzi.u32.f32", "w:w", {0xbf800000}, 0},
    {"cvt.rzi.u32.f32", "w:w", {INF32}, 0xffffffff}, {"cvt.rzi.s32.f32", "w:w", {NAN32}, 0},
    {"cvt.rzi.s64.f32", "d:w", {NAN32}, 1ull << 63}, {"cvt.rni.s64.f64", "d:d", {0xc004000000000000}, (uint64_t)-2},
    {"cvt.rzi.u64.f64", "d:d", {0x46293e5939a08cea}, ~0ull}, {"cvt.rzi.s16.f32", "h:w", {0x49742400}, 0x7fff},
    {"cvt.rn.f32.s32", "w:w", {0x1000001}, 0x4b800000}, {"cvt.rp.f32.s32", "w:w", {0x1000001}, 0x4b800001},
    {"cvt.rn.f32.s32", "w:w", {M(3)}, 0xc0400000}, {"cvt.rn.f32.u32", "w:w", {0xffffffff}, 0x4f800000},
    {"cvt.rz.f32.u32", "w:w", {0xffffffff}, 0x4f7fffff}, {"cvt.rn.f64.s32", "d:w", {M(3)}, 0xc008000000000000},
    {"cvt.rn.f64.u64", "d:d", {1ull << 63}, 0x43e0000000000000},
    {"cvt.rn.f64.s64", "d:d", {(uint64_t)-1}, 0xbff0000000000000},
    {"cvt.rn.f32.u64", "w:d", {(1ull << 60) + (1ull << 36) + 1}, 0x5d800001}, /* rounded once, not by way of double */
    {"cvt.f64.f32", "d:w", {ODD}, 0x3ff0000020000000}, {"cvt.rn.f32.f64", "w:d", {0x3ff0000030000000}, 0x3f800002},
    {"cvt.rz.f32.f64", "w:d", {0x3ff0000030000000}, ODD}, {"cvt.rp.f32.f64", "w:d", {0x7e37e43c8800759c}, INF32},
    {"cvt.rm.f32.f64", "w:d", {0x7e37e43c8800759c}, 0x7f7fffff},
    {"cvt.rn.f32.f64", "w:d", {0x7ff8000000000000}, NAN32},
    {"cvt.sat.f32.f32", "w:w", {0x40000000}, ONE}, {"cvt.sat.f32.f32", "w:w", {0xbf800000}, 0},
    {"cvt.sat.f32.f32", "w:w", {NAN32}, 0}, {"cvt.sat.f32.f32", "w:w", {0x3f000000}, 0x3f000000},
    {"cvt.rzi.f32.f32", "w:w", {0xc02ccccd}, 0xc0000000}, {"cvt.rni.f32.f32", "w:w", {0x3fc00000}, 0x40000000},
    {"cvt.ftz.f32.f32", "w:w", {0x80000001}, 0x80000000}, {"cvt.f32.bf16", "w:h", {0x3f81}, 0x3f810000},
    {"cvt.rz.bf16.f32", "h:w", {0x3f80ffff}, 0x3f80},
    {"cvt.rn.sat.f32.s32", "w:w", {7}, ONE}, {"cvt.rn.sat.f32.s32", "w:w", {M(7)}, 0},
    {"cvt.rn.sat.f64.u64", "d:d", {~0ull}, 0x3ff0000000000000}, {"cvt.rn.sat.f64.u64", "d:d", {0}, 0},
    {"cvt.sat.f32.f32", "w:w", {0x80000000}, 0}, /* -0 is below +0 */
    {"cvt.rn.bf16.s32", "h:w", {M(3)}, 0xc040}, {"cvt.rn.bf16.u32", "h:w", {257}, 0x4380},
    {"cvt.rn.bf16.u32", "h:w", {259}, 0x4382}, {"cvt.rp.bf16.u32", "h:w", {257}, 0x4381},
    {"cvt.rn.bf16.u64", "h:d", {(1ull << 60) + (1ull << 52) + 1}, 0x5d81}, /* not a tie */
    {"cvt.rn.bf16.u64", "h:d", {(1ull << 60) + (1ull << 52)}, 0x5d80}, {"cvt.rz.bf16.s16", "h:h", {0x7fff}, 0x46ff},
    {"cvt.rn.bf16.f64", "h:d", {0x3ff0100000000001}, 0x3f81}, {"cvt.rni.bf16.bf16", "h:h", {0x4020}, 0x4000},
    {"cvt.rzi.s32.bf16", "w:h", {0xc020}, M(2)}, {"cvt.rni.s32.f64", "w:d", {0x7ff8000000000000}, 0x80000000},
    {"cvt.rni.u32.f64", "w:d", {0x7ff8000000000000}, 0x80000000}, {"cvt.rzi.u64.f32", "d:w", {NAN32}, 1ull << 63},
    {"cvt.ftz.f64.f32", "d:w", {0x80000001}, 1ull << 63}, {"cvt.rpi.ftz.s32.f32", "w:w", {TINY}, 0},
    {"cvt.rpi.s32.f32", "w:w", {TINY}, 1}, {"cvt.rn.ftz.f32.f64", "w:d", {0xb7e0000000000000}, 0x80000000},
};

static uint64_t bits_of_double(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

static uint64_t bits_of_float(double x)
{
    const float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

static unsigned bytes_of(char size)
{
    return size == 'h' ? 2 : size == 'd' ? 8 : 4;
}

static char letter(char size)
{
    return size == 'h' ? 'h' : size == 'd' ? 'd' : 'r';
}

/* Operand i in register 8 + i, the result in register 4; immediates once and registers once. */
static void text_of(const struct row *r, bool immediate, char *text, size_t room)
{
    const char *s = r->sizes + 2;
    size_t n = 0;
    for (int i = 0; s[i]; i++)
        n += (size_t)snprintf(text + n, room - n, "mov.b%u %%%c%d, %#llx;\n", 8 * bytes_of(s[i]), letter(s[i]), 8 + i,
                              (unsigned long long)r->in[i]);
    n += (size_t)snprintf(text + n, room - n, "%s %%%c4", r->op, letter(r->sizes[0]));
    for (int i = 0; s[i]; i++)
        n += immediate && i > 0
                 ? (size_t)snprintf(text + n, room - n, ", %#llx", (unsigned long long)r->in[i])
                 : (size_t)snprintf(text + n, room - n, ", %%%c%d", letter(s[i]), 8 + i);
    snprintf(text + n, room - n, ";\nst.global.b%u [%%d2], %%%c4;", 8 * bytes_of(r->sizes[0]), letter(r->sizes[0]));
}

static void check_row(const struct row *r, bool immediate)
{
    struct kernel_run t = {0};
    char text[1024];
    text_of(r, immediate, text, sizeof(text));
    must_run(&t, "", text);
    for (int l = 0; l < 32; l++)
        if (t.out[l] != r->want)
            fail_msg("%s of %llx %llx %llx: %llx in lane %d, %llx expected", r->op, (unsigned long long)r->in[0],
                     (unsigned long long)r->in[1], (unsigned long long)r->in[2], (unsigned long long)t.out[l], l,
                     (unsigned long long)r->want);
}

static void test_known_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        check_row(&rows[i], false);
        check_row(&rows[i], true);
    }
}

/* --- comparisons, against C ----------------------------------------------------------------------- */

static bool compared(const char *op, double a, double b)
{
    const bool nan = isnan(a) || isnan(b), u = strlen(op) == 3 && op[2] == 'u';
    if (strcmp(op, "num") == 0 || strcmp(op, "nan") == 0)
        return nan == (op[1] == 'a');
    if (nan)
        return u;
    return strncmp(op, "eq", 2) == 0   ? a == b
           : strncmp(op, "ne", 2) == 0 ? a != b
           : strncmp(op, "lt", 2) == 0 ? a < b
           : strncmp(op, "le", 2) == 0 ? a <= b
           : strncmp(op, "gt", 2) == 0 ? a > b
                                       : a >= b;
}

static void check_setp(const char *op, const char *type, unsigned bytes, uint64_t a, uint64_t b, bool want)
{
    struct kernel_run t = {0};
    char text[512];
    const char r = letter(bytes == 2 ? 'h' : bytes == 8 ? 'd' : 'w');
    snprintf(text, sizeof(text),
             "mov.b%u %%%c8, %#llx; mov.b%u %%%c9, %#llx;\nsetp.%s.%s %%p1, %%%c8, %%%c9;\n"
             "selp.u32 %%r4, 1, 0, %%p1; st.global.u32 [%%d2], %%r4;",
             8 * bytes, r, (unsigned long long)a, 8 * bytes, r, (unsigned long long)b, op, type, r, r);
    must_run(&t, "", text);
    if (t.out[7] != (uint64_t)want)
        fail_msg("setp.%s.%s of %llx and %llx", op, type, (unsigned long long)a, (unsigned long long)b);
}

static void test_comparisons_of_floats(void **state)
{
    static const char *const ops[] = {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu",
                                      "num", "nan"};
    const double x[] = {-1, -0.0, 0, 2, (double)INFINITY, (double)NAN};
    (void)state;
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++)
        for (int i = 0; i < 36; i++) {
            const double a = x[i / 6], b = x[i % 6];
            check_setp(ops[o], "f32", 4, bits_of_float(a), bits_of_float(b), compared(ops[o], a, b));
            check_setp(ops[o], "f64", 8, bits_of_double(a), bits_of_double(b), compared(ops[o], a, b));
        }
}

static void test_comparisons_of_integers(void **state)
{
    static const char *const ops[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    const int64_t x[] = {-2, -1, 0, 3};
    (void)state;
    for (size_t o = 0; o < 6; o++)
        for (int i = 0; i < 16; i++) {
            const int64_t a = x[i / 4], b = x[i % 4];
            check_setp(ops[o], "s32", 4, (uint32_t)a, (uint32_t)b, compared(ops[o], (double)a, (double)b));
            check_setp(ops[o], "s64", 8, (uint64_t)a, (uint64_t)b, compared(ops[o], (double)a, (double)b));
            check_setp(ops[o], "s16", 2, (uint16_t)a, (uint16_t)b, compared(ops[o], (double)a, (double)b));
            check_setp(ops[o], "u32", 4, (uint32_t)a, (uint32_t)b, compared(ops[o], (uint32_t)a, (uint32_t)b));
            check_setp(ops[o], "u64", 8, (uint64_t)a << 32, (uint64_t)b << 32,
                       compared(ops[o], (uint32_t)a, (uint32_t)b));
            check_setp(ops[o], "u16", 2, (uint16_t)a, (uint16_t)b, compared(ops[o], (uint16_t)a, (uint16_t)b));
        }
}

/* --- both tables ------------------------------------------------------------------------------------ */

static uint64_t next_number(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* What is compiled for AVX2 gives the same bits; NaNs of fp64 may have others. */
static bool agree(const struct ptx_alu_row *a, const struct ptx_alu_row *b, uint64_t *seed)
{
    uint64_t in[4][PTX_LANES], x[PTX_LANES] = {0}, y[PTX_LANES] = {0};
    const void *s[4] = {in[0], in[1], in[2], in[3]};
    for (int k = 0; k < 4; k++)
        for (int l = 0; l < PTX_LANES; l++)
            in[k][l] = next_number(seed);
    for (int k = 0; a->sizes[k + 2]; k++)
        for (int l = 0; a->sizes[k + 2] == 'p' && l < PTX_LANES / 2; l++)
            in[k][l] = in[k][l] & 1 ? 0xffffffff : 0xffffffff00000000;
    a->run(x, s);
    b->run(y, s);
    for (int l = 0; l < PTX_LANES; l++) {
        double p, q;
        memcpy(&p, &x[l], sizeof(p));
        memcpy(&q, &y[l], sizeof(q));
        if (x[l] != y[l] && !(strstr(a->name, "f64") && isnan(p) && isnan(q)))
            return false;
    }
    return true;
}

static void test_tables_agree(void **state)
{
    uint64_t seed = 88172645463325252ull;
    (void)state;
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        skip();
    for (int i = 0; ptx_alu_plain[i].name; i++)
        for (int turn = 0; turn < 20; turn++)
            if (!agree(&ptx_alu_plain[i], &ptx_alu_avx2[i], &seed))
                fail_msg("%s: the function for AVX2 has another result", ptx_alu_plain[i].name);
#endif
}

/* Each form of the table is in the rows above, but setp and selp. */
static void test_no_form_is_untested(void **state)
{
    (void)state;
    for (const struct ptx_alu_row *r = ptx_alu_plain; r->name; r++) {
        bool found = strncmp(r->name, "setp", 4) == 0 || strncmp(r->name, "selp", 4) == 0 || strstr(r->name, ".pred") ||
                     strncmp(r->name, "cvta", 4) == 0;
        for (size_t i = 0; !found && i < sizeof(rows) / sizeof(rows[0]); i++)
            found = strcmp(rows[i].op, r->name) == 0;
        if (!found)
            fail_msg("no known result of %s", r->name);
    }
}

static void test_predicates_and_selection(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "",
             "setp.lt.u32 %p1, %r0, 16; setp.gt.u32 %p2, %r0, 7; and.pred %p3, %p1, %p2; or.pred %p4, %p1, %p2;"
             "xor.pred %p5, %p1, %p2; not.pred %p6, %p3; mov.pred %p7, %p6;"
             "selp.b32 %r1, 1, 0, %p3; selp.u32 %r2, 2, 0, %p4; selp.s32 %r3, 4, 0, %p5;"
             "selp.f32 %f1, 0f00000008, 0f00000000, %p7;"
             "mov.b32 %r4, %f1; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4;"
             "cvt.u64.u32 %d4, %r1; selp.b64 %d5, %d4, 99, %p4; selp.f64 %d5, %d5, 98, %p4; selp.u64 %d5, %d5, 97, %p4;"
             "selp.s64 %d5, %d5, 96, %p4; cvt.u16.u32 %h1, %r1; selp.b16 %h2, %h1, 5, %p4; selp.u16 %h2, %h2, 5, %p4;"
             "selp.s16 %h2, %h2, 5, %p4; cvt.u64.u16 %d6, %h2; shl.b64 %d6, %d6, 32; or.b64 %d5, %d5, %d6;"
             "st.global.u64 [%d2], %d5;");
    for (uint64_t l = 0; l < 32; l++) {
        const bool a = l < 16, b = l > 7;
        const uint64_t want = (a && b ? 1u : 0u) | (a || b ? 2u : 0u) | (a != b ? 4u : 0u) | (a && b ? 0u : 8u);
        assert_int_equal(t.out[l], want | want << 32);
    }
}

/* ISA, "Predicate Constants": what is not zero is true. */
static void test_constants_as_predicates(void **state)
{
    struct kernel_run t = {0};
    (void)state;
    must_run(&t, "",
             "mov.pred %p1, 2; not.pred %p2, %p1; mov.pred %p3, 0; not.pred %p4, %p3; and.pred %p5, %p1, 1;\n"
             "selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2; selp.u32 %r3, 4, 0, %p3; selp.u32 %r4, 8, 0, %p4;"
             "selp.u32 %r5, 16, 0, %p5; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3; or.b32 %r1, %r1, %r4;"
             "or.b32 %r1, %r1, %r5; @%p1 st.global.u32 [%d2], %r1;");
    assert_int_equal(t.out[3], 1 + 8 + 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_results),
        cmocka_unit_test(test_comparisons_of_floats),
        cmocka_unit_test(test_comparisons_of_integers),
        cmocka_unit_test(test_predicates_and_selection),
        cmocka_unit_test(test_constants_as_predicates),
        cmocka_unit_test(test_tables_agree),
        cmocka_unit_test(test_no_form_is_untested),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
