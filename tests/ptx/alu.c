/* SPDX-License-Identifier: Apache-2.0 */
/* alu.c - instructions that compute in each lane by itself, each a loop over 32 lanes
 *
 * Compiled twice, for every x86-64 and for AVX2 with FMA (ALU_AVX2); both give the same bits.  -ffp-contract=off:
 * a product is rounded before it is added to, but in fma and mad.
 *
 * ISA, "Floating Point Instructions": single precision has denormals, but with .ftz, which makes denormals of
 * input and output zeros with their sign; a NaN that an instruction makes is the canonical one, 0x7fffffff.
 * The .approx instructions are rounded here from double precision, better than what the ISA promises.
 */
#include "tests/ptx/code.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#ifdef ALU_AVX2
#define TABLE ptx_alu_avx2
#else
#define TABLE ptx_alu_plain
#endif

typedef uint16_t h16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
typedef int16_t s16;

#define LANES _Pragma("omp simd") for (int l = 0; l < PTX_LANES; l++)
#define ONE_BY_ONE for (int l = 0; l < PTX_LANES; l++)

/* y and a, b, c, e: result and operands of one lane */
#define LOOP1(way, name, R, T, expr)                             \
    static void name(void *d, const void *const *s)              \
    {                                                            \
        R *y = d;                                                \
        const T *const pa = s[0];                                \
        way { const T a = pa[l]; y[l] = (R)(expr); }             \
    }
#define LOOP2(way, name, R, T, U, expr)                          \
    static void name(void *d, const void *const *s)              \
    {                                                            \
        R *y = d;                                                \
        const T *const pa = s[0];                                \
        const U *const pb = s[1];                                \
        way { const T a = pa[l]; const U b = pb[l]; y[l] = (R)(expr); } \
    }
#define LOOP3(way, name, R, T, U, V, expr)                       \
    static void name(void *d, const void *const *s)              \
    {                                                            \
        R *y = d;                                                \
        const T *const pa = s[0];                                \
        const U *const pb = s[1];                                \
        const V *const pc = s[2];                                \
        way { const T a = pa[l]; const U b = pb[l]; const V c = pc[l]; y[l] = (R)(expr); } \
    }
#define F1(name, R, T, expr) LOOP1(LANES, name, R, T, expr)
#define F2(name, R, T, expr) LOOP2(LANES, name, R, T, T, expr)
#define F3(name, R, T, expr) LOOP3(LANES, name, R, T, T, T, expr)

/* --- integers: ISA, "Integer Arithmetic Instructions" --------------------------------------- */

F2(add_w, u32, u32, a + b)
F2(add_d, u64, u64, a + b)
F2(add_h, h16, h16, a + b)
F2(sub_w, u32, u32, a - b)
F2(sub_d, u64, u64, a - b)
F2(sub_h, h16, h16, a - b)
F2(mul_lo_w, u32, u32, a *b)
F2(mul_lo_d, u64, u64, a *b)
F2(mul_lo_h, h16, h16, (u32)a *b)
F2(mul_hi_s32, u32, s32, (u64)((s64)a * b) >> 32)
F2(mul_hi_u32, u32, u32, ((u64)a * b) >> 32)
LOOP2(ONE_BY_ONE, mul_hi_s64, u64, s64, s64, (unsigned __int128)((__int128)a * b) >> 64)
LOOP2(ONE_BY_ONE, mul_hi_u64, u64, u64, u64, ((unsigned __int128)a * b) >> 64)
F2(mul_wide_s32, u64, s32, (s64)a *b)
F2(mul_wide_u32, u64, u32, (u64)a *b)
F2(mul_wide_s16, u32, s16, (s32)a *b)
F2(mul_wide_u16, u32, h16, (u32)a *b)
F3(mad_lo_w, u32, u32, a *b + c)
F3(mad_lo_d, u64, u64, a *b + c)
LOOP3(LANES, mad_wide_s32, u64, s32, s32, u64, (u64)((s64)a * b) + c)
LOOP3(LANES, mad_wide_u32, u64, u32, u32, u64, (u64)a *b + c)
/* "div": by zero gives an unspecified, machine-specific value; all bits set here. The most negative number over -1
 * overflows to itself. */
LOOP2(ONE_BY_ONE, div_s32, u32, s32, s32, b == 0 ? (u32)-1 : b == -1 ? -(u32)a : (u32)(a / b))
LOOP2(ONE_BY_ONE, div_u32, u32, u32, u32, b == 0 ? (u32)-1 : a / b)
LOOP2(ONE_BY_ONE, div_s64, u64, s64, s64, b == 0 ? (u64)-1 : b == -1 ? -(u64)a : (u64)(a / b))
LOOP2(ONE_BY_ONE, div_u64, u64, u64, u64, b == 0 ? (u64)-1 : a / b)
LOOP2(ONE_BY_ONE, rem_s32, u32, s32, s32, b == 0 ? (u32)a : b == -1 ? 0 : (u32)(a % b))
LOOP2(ONE_BY_ONE, rem_u32, u32, u32, u32, b == 0 ? a : a % b)
LOOP2(ONE_BY_ONE, rem_s64, u64, s64, s64, b == 0 ? (u64)a : b == -1 ? 0 : (u64)(a % b))
LOOP2(ONE_BY_ONE, rem_u64, u64, u64, u64, b == 0 ? a : a % b)
/* "min", "max", "neg", "abs", "popc", "clz", "brev": the most negative number is its own negative and magnitude */
F2(min_s32, u32, s32, a < b ? a : b)
F2(max_s32, u32, s32, a > b ? a : b)
F2(min_u32, u32, u32, a < b ? a : b)
F2(max_u32, u32, u32, a > b ? a : b)
F2(min_s64, u64, s64, a < b ? a : b)
F2(max_s64, u64, s64, a > b ? a : b)
F2(min_u64, u64, u64, a < b ? a : b)
F2(max_u64, u64, u64, a > b ? a : b)
F1(neg_w, u32, u32, -a)
F1(neg_d, u64, u64, -a)
F1(abs_s32, u32, s32, a < 0 ? -(u32)a : (u32)a)
F1(abs_s64, u64, s64, a < 0 ? -(u64)a : (u64)a)
LOOP1(ONE_BY_ONE, popc_w, u32, u32, __builtin_popcount(a))
LOOP1(ONE_BY_ONE, clz_w, u32, u32, a ? __builtin_clz(a) : 32)
/* "bfind": the highest bit that is set; .shiftamt: how far it is from the top; all bits where none is set */
LOOP1(ONE_BY_ONE, bfind_w, u32, u32, a ? 31 - __builtin_clz(a) : -1)
LOOP1(ONE_BY_ONE, bfind_shift_w, u32, u32, a ? __builtin_clz(a) : -1)
LOOP1(ONE_BY_ONE, brev_w, u32, u32, ({ u32 r = 0; for (int i = 0; i < 32; i++) r |= (a >> i & 1) << (31 - i); r; }))

/* "bfe", "bfi": position and length are 8 bits; what reaches past the end is not inserted, and is zeros (.u) when
 * extracted. */
static u64 mask_of(u32 pos, u32 len, u32 bits)
{
    const u64 field = len >= 64 ? ~0ull : (1ull << len) - 1, all = bits == 64 ? ~0ull : 0xffffffffull;
    return pos >= bits ? 0 : (field << pos) & all;
}

LOOP3(ONE_BY_ONE, bfe_u32, u32, u32, u32, u32, (b & 255) > 31 ? 0 : (a & mask_of(b & 255, c & 255, 32)) >> (b & 255))
LOOP3(ONE_BY_ONE, bfe_u64, u64, u64, u32, u32, (b & 255) > 63 ? 0 : (a & mask_of(b & 255, c & 255, 64)) >> (b & 255))

#define BFI(name, T, bits)                                                                             \
    static void name(void *d, const void *const *s)                                                    \
    {                                                                                                  \
        T *y = d;                                                                                      \
        const T *const a = s[0], *const b = s[1];                                                      \
        const u32 *const at = s[2], *const len = s[3];                                                 \
        ONE_BY_ONE                                                                                     \
        {                                                                                              \
            const T m = (T)mask_of(at[l] & 255, len[l] & 255, bits);                                   \
            y[l] = (T)((b[l] & ~m) | ((T)((at[l] & 255) < bits ? a[l] << (at[l] & 255) : 0) & m));     \
        }                                                                                              \
    }
BFI(bfi_w, u32, 32)
BFI(bfi_d, u64, 64)

/* --- logic and shifts: ISA, "Logic and Shift Instructions" ------------------------------------ */

F2(and_w, u32, u32, a &b)
F2(or_w, u32, u32, a | b)
F2(xor_w, u32, u32, a ^ b)
F1(not_w, u32, u32, ~a)
F2(and_d, u64, u64, a &b)
F2(or_d, u64, u64, a | b)
F2(xor_d, u64, u64, a ^ b)
F1(not_d, u64, u64, ~a)
F2(and_h, h16, h16, a &b)
F2(or_h, h16, h16, a | b)
F2(xor_h, h16, h16, a ^ b)
F1(not_h, h16, h16, ~a)
/* amounts above the width are clamped to it */
LOOP2(LANES, shl_w, u32, u32, u32, b > 31 ? 0 : a << (b & 31))
LOOP2(LANES, shl_d, u64, u64, u32, b > 63 ? 0 : a << (b & 63))
LOOP2(LANES, shr_u32, u32, u32, u32, b > 31 ? 0 : a >> (b & 31))
LOOP2(LANES, shr_u64, u64, u64, u32, b > 63 ? 0 : a >> (b & 63))
LOOP2(LANES, shr_s32, u32, s32, u32, a >> (b > 31 ? 31 : b))
LOOP2(LANES, shr_s64, u64, s64, u32, a >> (b > 63 ? 63 : b))
LOOP2(LANES, shl_h, h16, h16, u32, b > 15 ? 0 : (u32)a << (b & 15))
LOOP2(LANES, shr_u16, h16, h16, u32, b > 15 ? 0 : a >> (b & 15))
LOOP2(LANES, shr_s16, h16, s16, u32, a >> (b > 15 ? 15 : b))
/* "shf": c:b as 64 bits; .wrap takes the amount modulo 32, .clamp at most 32 */
F3(shf_l_wrap, u32, u32, ((u64)b << 32 | a) << (c & 31) >> 32)
F3(shf_r_wrap, u32, u32, ((u64)b << 32 | a) >> (c & 31))
F3(shf_l_clamp, u32, u32, c > 31 ? a : ((u64)b << 32 | a) << (c & 31) >> 32)
F3(shf_r_clamp, u32, u32, c > 31 ? b : ((u64)b << 32 | a) >> (c & 31))

/* "lop3": bit (a, b, c) of the table gives the result */
static u32 lop3(u32 a, u32 b, u32 c, u32 table)
{
    u32 y = 0;
    for (u32 i = 0; i < 8; i++)
        if (table >> i & 1)
            y |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return y;
}

static void lop3_w(void *d, const void *const *s)
{
    const u32 *const a = s[0], *const b = s[1], *const c = s[2], *const t = s[3];
    u32 *y = d;
    ONE_BY_ONE y[l] = lop3(a[l], b[l], c[l], t[l]);
}

/* "prmt", default mode: four of the eight bytes of b:a; a selector's top bit spreads the sign of its byte */
static u32 prmt(u32 a, u32 b, u32 sel)
{
    const u64 all = (u64)b << 32 | a;
    u32 y = 0;
    for (int i = 0; i < 4; i++, sel >>= 4) {
        const u32 byte = (u32)(all >> 8 * (sel & 7)) & 255;
        y |= (sel & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return y;
}
LOOP3(ONE_BY_ONE, prmt_w, u32, u32, u32, u32, prmt(a, b, c))

/* --- moves: ISA, "mov", "selp", "cvta" --------------------------------------------------------- */

F1(mov_h, h16, h16, a)
F1(mov_w, u32, u32, a)
F1(mov_d, u64, u64, a)
LOOP3(LANES, selp_h, h16, h16, h16, u32, c ? a : b)
LOOP3(LANES, selp_w, u32, u32, u32, u32, c ? a : b)
LOOP3(LANES, selp_d, u64, u64, u64, u32, c ? a : b)
F1(to_shared, u64, u64, a - PTX_SHARED_WINDOW)
F1(of_shared, u64, u64, a + PTX_SHARED_WINDOW)
F1(to_local, u64, u64, a - PTX_LOCAL_WINDOW)
F1(of_local, u64, u64, a + PTX_LOCAL_WINDOW)

/* --- comparisons: ISA, "setp", "Comparison and Selection Instructions": unordered ones (u) are true of NaN ------ */

#define SETP(name, T, expr) F2(setp_##name, u32, T, (expr) ? ~0u : 0u)
#define SETP_INT(t, T)       \
    SETP(eq_##t, T, a == b)  \
    SETP(ne_##t, T, a != b)  \
    SETP(lt_##t, T, a < b)   \
    SETP(le_##t, T, a <= b)  \
    SETP(gt_##t, T, a > b)   \
    SETP(ge_##t, T, a >= b)
SETP_INT(s32, s32)
SETP_INT(u32, u32)
SETP_INT(s64, s64)
SETP_INT(u64, u64)
SETP_INT(s16, s16)
SETP_INT(u16, h16)
#define SETP_FLOAT(t, T)                          \
    SETP(eq_##t, T, a == b)                       \
    SETP(ne_##t, T, islessgreater(a, b))          \
    SETP(lt_##t, T, a < b)                        \
    SETP(le_##t, T, a <= b)                       \
    SETP(gt_##t, T, a > b)                        \
    SETP(ge_##t, T, a >= b)                       \
    SETP(equ_##t, T, !islessgreater(a, b))        \
    SETP(neu_##t, T, !(a == b))                   \
    SETP(ltu_##t, T, !(a >= b))                   \
    SETP(leu_##t, T, !(a > b))                    \
    SETP(gtu_##t, T, !(a <= b))                   \
    SETP(geu_##t, T, !(a < b))                    \
    SETP(num_##t, T, !isunordered(a, b))          \
    SETP(nan_##t, T, isunordered(a, b))
SETP_FLOAT(f32, float)
SETP_FLOAT(f64, double)

/* --- floating point: ISA, "Floating Point Instructions" ------------------------------------------ */

static inline float bits_f(u32 u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline u32 f_bits(float f)
{
    u32 u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

/* the canonical NaN for any other */
#define NAN_F bits_f(0x7fffffff)
#define C(x) ({ const float c_ = (x); c_ != c_ ? NAN_F : c_; })
#define Z(x) (fabsf(x) < 0x1p-126f ? copysignf(0.0f, (x)) : (x))

F2(add_f, float, float, C(a + b))
F2(sub_f, float, float, C(a - b))
F2(mul_f, float, float, C(a *b))
F2(add_ftz_f, float, float, Z(C(Z(a) + Z(b))))
F2(sub_ftz_f, float, float, Z(C(Z(a) - Z(b))))
F2(mul_ftz_f, float, float, Z(C(Z(a) * Z(b))))
F3(fma_f, float, float, C(__builtin_fmaf(a, b, c)))
F3(fma_ftz_f, float, float, Z(C(__builtin_fmaf(Z(a), Z(b), Z(c)))))
F2(div_f, float, float, C(a / b))
F1(rcp_f, float, float, C(1.0f / a))
F1(sqrt_f, float, float, C(__builtin_sqrtf(a)))
F1(neg_f, u32, u32, a ^ 0x80000000u)
F1(abs_f, u32, u32, a & 0x7fffffffu)
/* "copysign": the sign of a, the rest of b */
F2(copysign_f, u32, u32, (a & 0x80000000u) | (b & 0x7fffffffu))
/* "min", "max": of a NaN and a number the number; -0 is below +0 */
#define NUMBER_OF(a, b, other) a != a ? (b != b ? NAN_F : b) : b != b ? a : (other)
F2(min_f, float, float, NUMBER_OF(a, b, a == b ? bits_f(f_bits(a) | f_bits(b)) : a < b ? a : b))
F2(max_f, float, float, NUMBER_OF(a, b, a == b ? bits_f(f_bits(a) & f_bits(b)) : a > b ? a : b))
F2(add_g, double, double, a + b)
F2(sub_g, double, double, a - b)
F2(mul_g, double, double, a *b)
F3(fma_g, double, double, __builtin_fma(a, b, c))
F2(div_g, double, double, a / b)
F1(rcp_g, double, double, 1.0 / a)
F1(sqrt_g, double, double, __builtin_sqrt(a))
F1(neg_g, u64, u64, a ^ 0x8000000000000000ull)
F1(abs_g, u64, u64, a & 0x7fffffffffffffffull)
/* As "min" and "max" of fp32; fmin() and fmax() may take either zero, and give a NaN for one that signals. */
static inline double smaller_g(double a, double b)
{
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static inline double larger_g(double a, double b)
{
    return a != a ? b : b != b ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
LOOP2(ONE_BY_ONE, min_g, double, double, double, smaller_g(a, b))
LOOP2(ONE_BY_ONE, max_g, double, double, double, larger_g(a, b))

/* "ex2", "lg2", "sin", "cos", "tanh", "rsqrt", "rcp.approx", "div.approx", "div.full", "sqrt.approx" */
LOOP1(ONE_BY_ONE, ex2_f, float, float, C((float)exp2((double)a)))
LOOP1(ONE_BY_ONE, ex2_ftz_f, float, float, Z(C((float)exp2((double)Z(a)))))
LOOP1(ONE_BY_ONE, lg2_f, float, float, C((float)log2((double)a)))
LOOP1(ONE_BY_ONE, lg2_ftz_f, float, float, Z(C((float)log2((double)Z(a)))))
LOOP1(ONE_BY_ONE, sin_f, float, float, C((float)sin((double)a)))
LOOP1(ONE_BY_ONE, cos_f, float, float, C((float)cos((double)a)))
LOOP1(ONE_BY_ONE, tanh_f, float, float, C((float)tanh((double)a)))
F1(rsqrt_f, float, float, C((float)(1.0 / __builtin_sqrt((double)a))))
F1(rcp_ftz_f, float, float, Z(C(1.0f / Z(a))))
F1(rsqrt_ftz_f, float, float, Z(C((float)(1.0 / __builtin_sqrt((double)Z(a))))))
/* "div": .approx is a times the reciprocal of b, which above 2^126 is a zero: infinity over it is a NaN. */
#define RATIO(a, b) (fabsf(b) > 0x1p126f ? (a) * copysignf(0.0f, (b)) : (a) / (b))
F2(div_approx_f, float, float, C(RATIO(a, b)))
F2(div_approx_ftz_f, float, float, Z(C(RATIO(Z(a), Z(b)))))

/* Other rounding modes: .rz, .rm, .rp. The processor's mode holds for the loop between the two calls, which read
 * and write all memory for all that the compiler knows. */
#define ROUNDED(name, mode)                                 \
    static void name##_##mode(void *d, const void *const *s) \
    {                                                       \
        fesetround(mode);                                   \
        name(d, s);                                         \
        fesetround(FE_TONEAREST);                           \
    }
#define ALL_ROUNDED(name) ROUNDED(name, rz) ROUNDED(name, rm) ROUNDED(name, rp)
enum { rz = FE_TOWARDZERO, rm = FE_DOWNWARD, rp = FE_UPWARD };
__attribute__((noinline)) static void plain_add(void *d, const void *const *s) { add_f(d, s); }
__attribute__((noinline)) static void plain_sub(void *d, const void *const *s) { sub_f(d, s); }
__attribute__((noinline)) static void plain_mul(void *d, const void *const *s) { mul_f(d, s); }
__attribute__((noinline)) static void plain_fma(void *d, const void *const *s) { fma_f(d, s); }
__attribute__((noinline)) static void plain_div(void *d, const void *const *s) { div_f(d, s); }
ALL_ROUNDED(plain_add)
ALL_ROUNDED(plain_sub)
ALL_ROUNDED(plain_mul)
ALL_ROUNDED(plain_fma)
ALL_ROUNDED(plain_div)

/* --- two numbers of bf16 in a register: ISA, "Half Precision Floating Point Instructions" ---------- */

static inline float low(u32 x)
{
    return bits_f(x << 16);
}

static inline float high(u32 x)
{
    return bits_f(x & 0xffff0000u);
}

/* To nearest, ties to even; the canonical NaN is 0x7fff. */
static inline u32 to_bf16(float f)
{
    const u32 u = f_bits(f);
    return f != f ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

/* A product and sum of bf16 numbers rounded once: in double, where the product is exact, then by way of an odd
 * float, so that the second rounding cannot be a tie that is none. */
static float to_odd(double x)
{
    float f = (float)x;
    u32 u = f_bits(f);
    if (f != f || (double)f == x || isinf(f))
        return f;
    if (fabs((double)f) > fabs(x))
        u--;
    return bits_f(u | 1);
}

static double to_odd_sum(double p, double c)
{
    const double s = p + c, t = s - p, e = (p - (s - t)) + (c - t);
    u64 u;
    memcpy(&u, &s, sizeof(u));
    if (!(e != 0) || isinf(s) || (u & 1))
        return s;
    return nextafter(s, e > 0 ? INFINITY : -INFINITY);
}

static u32 fma_bf16(float a, float b, float c)
{
    return to_bf16(to_odd(to_odd_sum((double)a * (double)b, (double)c)));
}

#define PAIR(lo, hi) ((lo) | (hi) << 16)
F2(cvt_bf16x2, u32, float, PAIR(to_bf16(b), to_bf16(a)))
F1(cvt_bf16, h16, float, to_bf16(a))
F2(add_bf16x2, u32, u32, PAIR(to_bf16(low(a) + low(b)), to_bf16(high(a) + high(b))))
F2(sub_bf16x2, u32, u32, PAIR(to_bf16(low(a) - low(b)), to_bf16(high(a) - high(b))))
F2(mul_bf16x2, u32, u32, PAIR(to_bf16(low(a) * low(b)), to_bf16(high(a) * high(b))))
LOOP3(ONE_BY_ONE, fma_bf16x2, u32, u32, u32, u32,
      PAIR(fma_bf16(low(a), low(b), low(c)), fma_bf16(high(a), high(b), high(c))))
LOOP3(ONE_BY_ONE, fma_rn_bf16, h16, h16, h16, h16, fma_bf16(low(a), low(b), low(c)))

/* "min", "max": as of fp32 */
static u32 larger(float a, float b)
{
    return to_bf16(NUMBER_OF(a, b, a == b ? bits_f(f_bits(a) & f_bits(b)) : a > b ? a : b));
}

static u32 smaller(float a, float b)
{
    return to_bf16(NUMBER_OF(a, b, a == b ? bits_f(f_bits(a) | f_bits(b)) : a < b ? a : b));
}
LOOP2(ONE_BY_ONE, max_bf16x2, u32, u32, u32, PAIR(larger(low(a), low(b)), larger(high(a), high(b))))
LOOP2(ONE_BY_ONE, min_bf16x2, u32, u32, u32, PAIR(smaller(low(a), low(b)), smaller(high(a), high(b))))
F1(neg_bf16x2, u32, u32, a ^ 0x80008000u)
F1(abs_bf16x2, u32, u32, a & 0x7fff7fffu)
/* "ex2" has .ftz always, which flushes denormals of bf16, too; "tanh" has them */
#define EX2(x) to_bf16(Z((float)exp2((double)Z(x))))
#define TANH(x) to_bf16((float)tanh((double)(x)))
LOOP1(ONE_BY_ONE, ex2_bf16x2, u32, u32, PAIR(EX2(low(a)), EX2(high(a))))
LOOP1(ONE_BY_ONE, tanh_bf16x2, u32, u32, PAIR(TANH(low(a)), TANH(high(a))))

/* --- the table ---------------------------------------------------------------------------------- */

/* Costs: instructions of sm_80 for one of PTX, by the programming guide's "Arithmetic Instructions" and by what
 * ptxas makes of it: 64-bit integers in two halves, divisions as short programs. */
#define INT(name, run, sizes, cost) {name, run, sizes, PTX_INT, 0, cost}
#define BOTH(op, t32, t64, run, cost) INT(op "." t32, run##_w, "w:ww", cost), INT(op "." t64, run##_d, "d:dd", 2 * cost)
#define SIGNS(op, run, cost)                                                                                      \
    INT(op ".s32", run##_w, "w:ww", cost), INT(op ".u32", run##_w, "w:ww", cost),                                 \
        INT(op ".s64", run##_d, "d:dd", 2 * cost), INT(op ".u64", run##_d, "d:dd", 2 * cost),                     \
        INT(op ".s16", run##_h, "h:hh", cost), INT(op ".u16", run##_h, "h:hh", cost)
#define EACH_INT(op, run, c32, c64)                                                                               \
    INT(op ".s32", run##_s32, "w:ww", c32), INT(op ".u32", run##_u32, "w:ww", c32),                               \
        INT(op ".s64", run##_s64, "d:dd", c64), INT(op ".u64", run##_u64, "d:dd", c64)
#define LOGIC(op, run, sizes_w, sizes_d, sizes_h)                                                                 \
    INT(op ".b32", run##_w, sizes_w, 1), INT(op ".b64", run##_d, sizes_d, 2), INT(op ".b16", run##_h, sizes_h, 1)
#define COMPARE_INT(op)                                                                                           \
    INT("setp." #op ".s32", setp_##op##_s32, "p:ww", 1), INT("setp." #op ".u32", setp_##op##_u32, "p:ww", 1),     \
        INT("setp." #op ".s64", setp_##op##_s64, "p:dd", 2), INT("setp." #op ".u64", setp_##op##_u64, "p:dd", 2), \
        INT("setp." #op ".s16", setp_##op##_s16, "p:hh", 1), INT("setp." #op ".u16", setp_##op##_u16, "p:hh", 1)
#define COMPARE_FLOAT(op)                                                                                         \
    {"setp." #op ".f32", setp_##op##_f32, "p:ww", PTX_FP32, 0, 1},                                                \
        {"setp." #op ".f64", setp_##op##_f64, "p:dd", PTX_FP64, 0, 1}
#define FP(name, run, sizes, flops) {name, run, sizes, PTX_FP32, flops, 1}
#define DP(name, run, sizes, flops, cost) {name, run, sizes, PTX_FP64, flops, cost}
#define SFU(name, run, sizes, cost) {name, run, sizes, PTX_SPECIAL, 1, cost}
#define MODES(op, run, sizes, flops)                                                                              \
    FP(op ".rz.f32", run##_rz, sizes, flops), FP(op ".rm.f32", run##_rm, sizes, flops),                           \
        FP(op ".rp.f32", run##_rp, sizes, flops)

const struct ptx_alu_row TABLE[] = {
    SIGNS("add", add, 1), SIGNS("sub", sub, 1),
    INT("mul.lo.s32", mul_lo_w, "w:ww", 1), INT("mul.lo.u32", mul_lo_w, "w:ww", 1),
    INT("mul.lo.s64", mul_lo_d, "d:dd", 4), INT("mul.lo.u64", mul_lo_d, "d:dd", 4),
    INT("mul.lo.s16", mul_lo_h, "h:hh", 1), INT("mul.lo.u16", mul_lo_h, "h:hh", 1),
    EACH_INT("mul.hi", mul_hi, 2, 8),
    INT("mul.wide.s32", mul_wide_s32, "d:ww", 1), INT("mul.wide.u32", mul_wide_u32, "d:ww", 1),
    INT("mul.wide.s16", mul_wide_s16, "w:hh", 1), INT("mul.wide.u16", mul_wide_u16, "w:hh", 1),
    INT("mad.lo.s32", mad_lo_w, "w:www", 1), INT("mad.lo.u32", mad_lo_w, "w:www", 1),
    INT("mad.lo.s64", mad_lo_d, "d:ddd", 4), INT("mad.lo.u64", mad_lo_d, "d:ddd", 4),
    INT("mad.wide.s32", mad_wide_s32, "d:wwd", 1), INT("mad.wide.u32", mad_wide_u32, "d:wwd", 1),
    EACH_INT("div", div, 20, 70), EACH_INT("rem", rem, 20, 70), EACH_INT("min", min, 1, 3), EACH_INT("max", max, 1, 3),
    INT("neg.s32", neg_w, "w:w", 1), INT("neg.s64", neg_d, "d:d", 2), INT("abs.s32", abs_s32, "w:w", 1),
    INT("abs.s64", abs_s64, "d:d", 3), INT("popc.b32", popc_w, "w:w", 1), INT("clz.b32", clz_w, "w:w", 2),
    INT("bfind.u32", bfind_w, "w:w", 1), INT("bfind.shiftamt.u32", bfind_shift_w, "w:w", 1),
    INT("brev.b32", brev_w, "w:w", 1), INT("bfe.u32", bfe_u32, "w:www", 2), INT("bfe.u64", bfe_u64, "d:dww", 4),
    INT("bfi.b32", bfi_w, "w:wwww", 2), INT("bfi.b64", bfi_d, "d:ddww", 4),
    LOGIC("and", and, "w:ww", "d:dd", "h:hh"), LOGIC("or", or, "w:ww", "d:dd", "h:hh"),
    LOGIC("xor", xor, "w:ww", "d:dd", "h:hh"), LOGIC("not", not, "w:w", "d:d", "h:h"),
    INT("and.pred", and_w, "p:pp", 1), INT("or.pred", or_w, "p:pp", 1), INT("xor.pred", xor_w, "p:pp", 1),
    INT("not.pred", not_w, "p:p", 1), LOGIC("shl", shl, "w:ww", "d:dw", "h:hw"),
    INT("shr.u32", shr_u32, "w:ww", 1), INT("shr.u64", shr_u64, "d:dw", 2), INT("shr.u16", shr_u16, "h:hw", 1),
    INT("shr.s32", shr_s32, "w:ww", 1), INT("shr.s64", shr_s64, "d:dw", 2), INT("shr.s16", shr_s16, "h:hw", 1),
    INT("shr.b32", shr_u32, "w:ww", 1), INT("shr.b64", shr_u64, "d:dw", 2),
    INT("shf.l.wrap.b32", shf_l_wrap, "w:www", 1), INT("shf.r.wrap.b32", shf_r_wrap, "w:www", 1),
    INT("shf.l.clamp.b32", shf_l_clamp, "w:www", 1), INT("shf.r.clamp.b32", shf_r_clamp, "w:www", 1),
    INT("lop3.b32", lop3_w, "w:wwww", 1), INT("prmt.b32", prmt_w, "w:www", 1),
    {"mov.b16", mov_h, "h:h", PTX_MOVE, 0, 0}, {"mov.b32", mov_w, "w:w", PTX_MOVE, 0, 0},
    {"mov.b64", mov_d, "d:d", PTX_MOVE, 0, 0}, {"mov.pred", mov_w, "p:p", PTX_MOVE, 0, 0},
    INT("selp.b16", selp_h, "h:hhp", 1), INT("selp.u16", selp_h, "h:hhp", 1), INT("selp.s16", selp_h, "h:hhp", 1),
    INT("selp.b32", selp_w, "w:wwp", 1), INT("selp.u32", selp_w, "w:wwp", 1), INT("selp.s32", selp_w, "w:wwp", 1),
    INT("selp.f32", selp_w, "w:wwp", 1), INT("selp.b64", selp_d, "d:ddp", 2), INT("selp.u64", selp_d, "d:ddp", 2),
    INT("selp.s64", selp_d, "d:ddp", 2), INT("selp.f64", selp_d, "d:ddp", 2),
    INT("cvta.shared", of_shared, "d:d", 0), INT("cvta.to.shared", to_shared, "d:d", 0),
    INT("cvta.local", of_local, "d:d", 0), INT("cvta.to.local", to_local, "d:d", 0),
    COMPARE_INT(eq), COMPARE_INT(ne), COMPARE_INT(lt), COMPARE_INT(le), COMPARE_INT(gt), COMPARE_INT(ge),
    INT("setp.eq.b32", setp_eq_u32, "p:ww", 1), INT("setp.ne.b32", setp_ne_u32, "p:ww", 1),
    INT("setp.eq.b16", setp_eq_u16, "p:hh", 1), INT("setp.ne.b16", setp_ne_u16, "p:hh", 1),
    INT("setp.eq.b64", setp_eq_u64, "p:dd", 2), INT("setp.ne.b64", setp_ne_u64, "p:dd", 2),
    COMPARE_FLOAT(eq), COMPARE_FLOAT(ne), COMPARE_FLOAT(lt), COMPARE_FLOAT(le), COMPARE_FLOAT(gt), COMPARE_FLOAT(ge),
    COMPARE_FLOAT(equ), COMPARE_FLOAT(neu), COMPARE_FLOAT(ltu), COMPARE_FLOAT(leu), COMPARE_FLOAT(gtu),
    COMPARE_FLOAT(geu), COMPARE_FLOAT(num), COMPARE_FLOAT(nan),
    FP("add.f32", add_f, "w:ww", 1), FP("sub.f32", sub_f, "w:ww", 1), FP("mul.f32", mul_f, "w:ww", 1),
    FP("add.rn.f32", add_f, "w:ww", 1), FP("sub.rn.f32", sub_f, "w:ww", 1), FP("mul.rn.f32", mul_f, "w:ww", 1),
    FP("add.ftz.f32", add_ftz_f, "w:ww", 1), FP("sub.ftz.f32", sub_ftz_f, "w:ww", 1),
    FP("mul.ftz.f32", mul_ftz_f, "w:ww", 1), FP("fma.rn.f32", fma_f, "w:www", 2),
    FP("fma.rn.ftz.f32", fma_ftz_f, "w:www", 2), MODES("add", plain_add, "w:ww", 1),
    MODES("sub", plain_sub, "w:ww", 1), MODES("mul", plain_mul, "w:ww", 1), MODES("fma", plain_fma, "w:www", 2),
    FP("copysign.f32", copysign_f, "w:ww", 0),
    FP("neg.f32", neg_f, "w:w", 0), FP("abs.f32", abs_f, "w:w", 0), FP("min.f32", min_f, "w:ww", 1),
    FP("max.f32", max_f, "w:ww", 1),
    SFU("div.rn.f32", div_f, "w:ww", 9), SFU("rcp.rn.f32", rcp_f, "w:w", 6), SFU("sqrt.rn.f32", sqrt_f, "w:w", 7),
    SFU("div.rz.f32", plain_div_rz, "w:ww", 9), SFU("div.rm.f32", plain_div_rm, "w:ww", 9),
    SFU("div.rp.f32", plain_div_rp, "w:ww", 9),
    SFU("div.full.f32", div_f, "w:ww", 4), SFU("div.approx.f32", div_approx_f, "w:ww", 2),
    SFU("div.approx.ftz.f32", div_approx_ftz_f, "w:ww", 2), SFU("ex2.approx.f32", ex2_f, "w:w", 3),
    SFU("ex2.approx.ftz.f32", ex2_ftz_f, "w:w", 1), SFU("lg2.approx.f32", lg2_f, "w:w", 3),
    SFU("lg2.approx.ftz.f32", lg2_ftz_f, "w:w", 1), SFU("sin.approx.f32", sin_f, "w:w", 2),
    SFU("cos.approx.f32", cos_f, "w:w", 2), SFU("tanh.approx.f32", tanh_f, "w:w", 1),
    SFU("rsqrt.approx.f32", rsqrt_f, "w:w", 3), SFU("rsqrt.approx.ftz.f32", rsqrt_ftz_f, "w:w", 1),
    SFU("rcp.approx.ftz.f32", rcp_ftz_f, "w:w", 1), SFU("rcp.approx.f32", rcp_f, "w:w", 3),
    SFU("sqrt.approx.f32", sqrt_f, "w:w", 3),
    DP("add.f64", add_g, "d:dd", 1, 1), DP("sub.f64", sub_g, "d:dd", 1, 1), DP("mul.f64", mul_g, "d:dd", 1, 1),
    DP("add.rn.f64", add_g, "d:dd", 1, 1), DP("sub.rn.f64", sub_g, "d:dd", 1, 1), DP("mul.rn.f64", mul_g, "d:dd", 1, 1),
    DP("fma.rn.f64", fma_g, "d:ddd", 2, 1), DP("div.rn.f64", div_g, "d:dd", 1, 15),
    DP("rcp.rn.f64", rcp_g, "d:d", 1, 10),
    DP("sqrt.rn.f64", sqrt_g, "d:d", 1, 15), DP("neg.f64", neg_g, "d:d", 0, 1), DP("abs.f64", abs_g, "d:d", 0, 1),
    DP("min.f64", min_g, "d:dd", 1, 3), DP("max.f64", max_g, "d:dd", 1, 3),
    FP("cvt.rn.bf16x2.f32", cvt_bf16x2, "w:ww", 0), FP("cvt.rn.bf16.f32", cvt_bf16, "h:w", 0),
    FP("add.rn.bf16x2", add_bf16x2, "w:ww", 2), FP("add.bf16x2", add_bf16x2, "w:ww", 2),
    FP("sub.rn.bf16x2", sub_bf16x2, "w:ww", 2), FP("sub.bf16x2", sub_bf16x2, "w:ww", 2),
    FP("mul.rn.bf16x2", mul_bf16x2, "w:ww", 2), FP("mul.bf16x2", mul_bf16x2, "w:ww", 2),
    FP("fma.rn.bf16x2", fma_bf16x2, "w:www", 4), FP("fma.rn.bf16", fma_rn_bf16, "h:hhh", 2),
    FP("max.bf16x2", max_bf16x2, "w:ww", 2), FP("min.bf16x2", min_bf16x2, "w:ww", 2),
    FP("neg.bf16x2", neg_bf16x2, "w:w", 0), FP("abs.bf16x2", abs_bf16x2, "w:w", 0),
    SFU("ex2.approx.ftz.bf16x2", ex2_bf16x2, "w:w", 2), SFU("tanh.approx.bf16x2", tanh_bf16x2, "w:w", 2),
    {NULL, NULL, NULL, 0, 0, 0},
};

#ifndef ALU_AVX2
const struct ptx_alu_row *ptx_alu_find(const char *name)
{
    const struct ptx_alu_row *table = ptx_alu_plain;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        table = ptx_alu_avx2;
#endif
    for (const struct ptx_alu_row *r = table; r->name; r++)
        if (strcmp(r->name, name) == 0)
            return r;
    return NULL;
}
#endif
