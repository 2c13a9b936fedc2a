/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - cvt between integers, floats and bf16: ISA, "cvt"
 *
 * Integer to integer: truncated or extended; with .sat clamped to the range of the result.  Float to integer:
 * rounded (.rni, .rzi, .rmi, .rpi) and clamped to the range of the result always; a NaN becomes 0, but 1 followed
 * by zeros where one of both has 64 bits.  Integer to float, and to a narrower float: rounded by .rn, .rz, .rm,
 * .rp.  .sat of a float: clamped to +0 to 1, and a NaN is +0 (-0, of which the ISA says nothing, is below +0 here, as
 * of "min").  .ftz: denormals of fp32 are zeros.
 */
#include "tests/ptx/run.h"

#include <fenv.h>
#include <math.h>

static int mode_of(char round)
{
    return round == 'z' ? FE_TOWARDZERO : round == 'm' ? FE_DOWNWARD : round == 'p' ? FE_UPWARD : FE_TONEAREST;
}

static int64_t extended(uint64_t x, unsigned bytes)
{
    const unsigned up = 64 - 8 * bytes;
    return (int64_t)(x << up) >> up;
}

static uint64_t cut(uint64_t x, unsigned bytes)
{
    return bytes >= 8 ? x : x & ((1ull << 8 * bytes) - 1);
}

static double float_of(uint64_t x, struct ptx_type t, bool ftz)
{
    float f;
    double d;
    const uint32_t u = (uint32_t)(t.bf16 ? x << 16 : x);
    if (t.bytes == 8) {
        memcpy(&d, &x, sizeof(d));
        return d;
    }
    memcpy(&f, &u, sizeof(f));
    return ftz && fabsf(f) < 0x1p-126f ? copysign(0, (double)f) : (double)f;
}

/* In the rounding mode that is set. */
static uint32_t float_bits(double x)
{
    volatile float f = (float)x;
    float y = f;
    uint32_t u;
    memcpy(&u, &y, sizeof(u));
    return isnan(x) ? 0x7fffffff : u;
}

/* The upper half of a float: what is cut off says to which side it is rounded. */
static uint64_t bf16_bits(double x, char round)
{
    fesetround(FE_TOWARDZERO);
    uint32_t u = float_bits(x);
    fesetround(FE_TONEAREST);
    if (isnan(x))
        return 0x7fff;
    if (float_of(u, (struct ptx_type){'f', 4, false}, false) != x && !isinf(x))
        u |= 1; /* something was cut off already */
    const uint32_t rest = u & 0xffff, odd = u >> 16 & 1;
    const bool up = round == 'n' ? rest + odd > 0x8000 : round == 'm' ? rest && signbit(x)
                    : round == 'p' ? rest && !signbit(x) : false;
    return (u >> 16) + up;
}

static uint64_t bits_of(double x, const struct ptx_ins *i)
{
    uint64_t u;
    if (i->sat)
        x = isnan(x) || x <= 0 ? 0 : x > 1 ? 1 : x; /* of -0, too */
    if (i->to.bytes == 8) {
        memcpy(&u, &x, sizeof(u));
        return isnan(x) ? 0x7fffffffffffffffull : u;
    }
    if (i->to.bf16)
        return bf16_bits(x, i->round ? i->round : 'n');
    fesetround(mode_of(i->round));
    u = float_bits(x);
    fesetround(FE_TONEAREST);
    if (i->ftz && (u & 0x7f800000) == 0)
        u &= 0x80000000;
    return u;
}

static double whole(double x, char round)
{
    return round == 'z' ? trunc(x) : round == 'm' ? floor(x) : round == 'p' ? ceil(x) : rint(x);
}

static uint64_t integer_of(double x, const struct ptx_ins *i)
{
    const unsigned bits = 8 * i->to.bytes;
    if (isnan(x))
        return i->from.bytes == 8 || i->to.bytes == 8 ? 1ull << (bits - 1) : 0;
    x = whole(x, i->round);
    if (i->to.kind == 's')
        return x >= ldexp(1, (int)bits - 1)    ? (1ull << (bits - 1)) - 1
               : x <= -ldexp(1, (int)bits - 1) ? (uint64_t)INT64_MIN >> (64 - bits)
                                               : cut((uint64_t)(int64_t)x, i->to.bytes);
    return x >= ldexp(1, (int)bits) ? cut(~0ull, i->to.bytes) : x <= 0 ? 0 : (uint64_t)x;
}

static uint64_t clamped(uint64_t x, const struct ptx_ins *i)
{
    const unsigned bits = 8 * i->to.bytes;
    const bool minus = i->from.kind == 's' && (int64_t)x < 0;
    if (i->to.kind == 'u')
        return minus ? 0 : x > cut(~0ull, i->to.bytes) ? cut(~0ull, i->to.bytes) : x;
    const int64_t most = (int64_t)((1ull << (bits - 1)) - 1);
    if (minus)
        return (int64_t)x < -most - 1 ? (uint64_t)(-most - 1) : x;
    return x > (uint64_t)most ? (uint64_t)most : x;
}

/* In a double, whose last digit says whether there were more: enough to be rounded to bf16 once. */
static double sticky(uint64_t x, bool minus)
{
    const uint64_t size = minus ? -x : x, low = size & 0xfff;
    const double y = size < 1ull << 53 ? (double)size : (double)(size - low + (low ? 0x800 : 0));
    return minus ? -y : y;
}

/* Integers of 64 bits have more digits than a double: rounded once, from the integer. */
static uint64_t float_of_integer(uint64_t x, const struct ptx_ins *i)
{
    uint64_t u = 0;
    float f;
    double d;
    if (i->sat)
        x = i->from.kind == 's' && (int64_t)x < 0 ? 0 : x != 0;
    if (i->to.bf16)
        return bf16_bits(sticky(x, i->from.kind == 's' && (int64_t)x < 0), i->round);
    fesetround(mode_of(i->round));
    const volatile uint64_t in = x;
    if (i->to.bytes == 8) {
        d = i->from.kind == 's' ? (double)(int64_t)in : (double)in;
        memcpy(&u, &d, sizeof(d));
    } else {
        f = i->from.kind == 's' ? (float)(int64_t)in : (float)in;
        memcpy(&u, &f, sizeof(f));
    }
    fesetround(FE_TONEAREST);
    return u;
}

static uint64_t converted(uint64_t x, const struct ptx_ins *i)
{
    const bool from = i->from.kind == 'f', to = i->to.kind == 'f';
    if (from && to) {
        const double y = float_of(x, i->from, i->ftz);
        const bool rounds = i->round && i->from.bytes == i->to.bytes && i->from.bf16 == i->to.bf16;
        return bits_of(rounds ? whole(y, i->round) : y, i); /* cvt.rzi.f32.f32: to a whole number */
    }
    if (from)
        return integer_of(float_of(x, i->from, i->ftz), i);
    const uint64_t wide = i->from.kind == 's' ? (uint64_t)extended(x, i->from.bytes) : cut(x, i->from.bytes);
    if (to)
        return float_of_integer(wide, i);
    return i->sat ? clamped(wide, i) : wide;
}

/* The usual ones, quickly. */
static bool quick(struct ptx_run *r)
{
    const struct ptx_ins *i = r->ins;
    const bool whole_warp = r->active == ~0u && i->to.kind != 'f' && i->from.kind != 'f' && !i->sat;
    const struct ptx_operand *d = ptx_operand_of(r, 0), *s = ptx_operand_of(r, 1);
    void *to = ptx_lanes(r, 0);
    const void *from = ptx_lanes(r, 1);
    if (!whole_warp || d->size != i->to.bytes || s->size != i->from.bytes)
        return false;
    if (d->size == 8 && s->size == 4 && i->from.kind == 's')
        for (int l = 0; l < PTX_LANES; l++)
            ((int64_t *)to)[l] = ((const int32_t *)from)[l];
    else if (d->size == 8 && s->size == 4)
        for (int l = 0; l < PTX_LANES; l++)
            ((uint64_t *)to)[l] = ((const uint32_t *)from)[l];
    else if (d->size == 4 && s->size == 8)
        for (int l = 0; l < PTX_LANES; l++)
            ((uint32_t *)to)[l] = (uint32_t)((const uint64_t *)from)[l];
    else
        return false;
    return true;
}

/* A register may be wider than its type: the low bits of a source count, and a signed result fills it. */
void ptx_convert(struct ptx_run *r)
{
    if (quick(r))
        return;
    const struct ptx_ins *i = r->ins;
    PTX_EACH_ACTIVE(r, l)
    {
        uint64_t y = converted(cut(ptx_source(r, 0, l), i->from.bytes), i);
        y = i->to.kind == 's' ? (uint64_t)extended(y, i->to.bytes) : cut(y, i->to.bytes);
        ptx_result(r, 0, l, y);
    }
}
