/* SPDX-License-Identifier: Apache-2.0 */
/* processor.c - see processor.h */
#include "kernels/processor.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef KERN_X86
#include <cpuid.h>
#endif

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const isa_names[KERN_ISAS] = {
    [KERN_BASE] = "base", [KERN_AVX2] = "avx2", [KERN_AVX512] = "avx512"};

static struct {
    char        model[64];
    const char *lacks[KERN_ISAS]; /* NULL: it runs */
} here;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#ifdef KERN_X86
enum { EAX, EBX, ECX, EDX, REGISTERS };
enum { LEAF_1 = 1, LEAF_7 = 7, LEAF_EXT = (int)0x80000001, LEAF_NAME = (int)0x80000002 };
enum { OS_AVX = 0x6, OS_AVX512 = 0xe6 }; /* parts of XCR0 */

/* Features that -march=x86-64-v3 and -v4 add to the baseline, by the CPUID leaf that
 * reports them. */
static const struct {
    const char   *name;
    enum kern_isa isa; /* the narrowest set that needs it */
    int           leaf, reg, bit;
} extensions[] = {
    {"ssse3", KERN_AVX2, LEAF_1, ECX, 9},       {"fma", KERN_AVX2, LEAF_1, ECX, 12},
    {"sse4.1", KERN_AVX2, LEAF_1, ECX, 19},     {"sse4.2", KERN_AVX2, LEAF_1, ECX, 20},
    {"movbe", KERN_AVX2, LEAF_1, ECX, 22},      {"popcnt", KERN_AVX2, LEAF_1, ECX, 23},
    {"avx", KERN_AVX2, LEAF_1, ECX, 28},        {"f16c", KERN_AVX2, LEAF_1, ECX, 29},
    {"bmi1", KERN_AVX2, LEAF_7, EBX, 3},        {"avx2", KERN_AVX2, LEAF_7, EBX, 5},
    {"bmi2", KERN_AVX2, LEAF_7, EBX, 8},        {"lzcnt", KERN_AVX2, LEAF_EXT, ECX, 5},
    {"avx512f", KERN_AVX512, LEAF_7, EBX, 16},  {"avx512dq", KERN_AVX512, LEAF_7, EBX, 17},
    {"avx512cd", KERN_AVX512, LEAF_7, EBX, 28}, {"avx512bw", KERN_AVX512, LEAF_7, EBX, 30},
    {"avx512vl", KERN_AVX512, LEAF_7, EBX, 31},
};

static bool has(int leaf, int reg, int bit)
{
    unsigned r[REGISTERS] = {0};
    return __get_cpuid_count((unsigned)leaf, 0, &r[EAX], &r[EBX], &r[ECX], &r[EDX]) &&
           (r[reg] >> bit & 1);
}

/* The register states that the operating system saves; 0: none of the wide ones. */
static unsigned saved_states(void)
{
    unsigned low = 0, high = 0;
    if (has(LEAF_1, ECX, 27)) /* osxsave: XGETBV exists */
        __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static void find_lacking(void)
{
    const unsigned saved = saved_states();
    if ((saved & OS_AVX) != OS_AVX)
        here.lacks[KERN_AVX2] = "an operating system that saves avx registers";
    if ((saved & OS_AVX512) != OS_AVX512)
        here.lacks[KERN_AVX512] = "an operating system that saves avx512 registers";
    for (size_t i = ARRAY_LEN(extensions); i-- > 0;) {
        if (has(extensions[i].leaf, extensions[i].reg, extensions[i].bit))
            continue;
        for (int isa = extensions[i].isa; isa < KERN_ISAS; isa++)
            here.lacks[isa] = extensions[i].name;
    }
}

static void find_model(void)
{
    char name[3 * REGISTERS * sizeof(unsigned) + 1] = "";
    for (unsigned i = 0; i < 3; i++) {
        unsigned r[REGISTERS] = {0};
        if (!__get_cpuid((unsigned)LEAF_NAME + i, &r[EAX], &r[EBX], &r[ECX], &r[EDX]))
            break;
        memcpy(name + i * sizeof(r), r, sizeof(r));
    }
    const char *first = name + strspn(name, " ");
    snprintf(here.model, sizeof(here.model), "%s", *first ? first : "x86-64");
    for (size_t n = strlen(here.model); n && here.model[n - 1] == ' '; n--)
        here.model[n - 1] = '\0';
}
#else
static void find_lacking(void)
{
    here.lacks[KERN_AVX2] = "an x86-64 processor";
    here.lacks[KERN_AVX512] = "an x86-64 processor";
}

static void find_model(void)
{
    snprintf(here.model, sizeof(here.model), "a processor other than x86-64");
}
#endif

static void look(void)
{
    find_lacking();
    find_model();
}

const char *processor_model(void)
{
    pthread_once(&once, look);
    return here.model;
}

const char *processor_lacks(enum kern_isa isa)
{
    pthread_once(&once, look);
    return here.lacks[isa];
}

static int widest(void)
{
    int isa = KERN_ISAS - 1;
    while (isa > KERN_BASE && processor_lacks((enum kern_isa)isa))
        isa--;
    return isa;
}

int processor_choose(const char *wish, char why[PROCESSOR_WHY])
{
    int isa = 0;
    if (!wish || !*wish)
        return widest();
    while (isa < KERN_ISAS && strcmp(isa_names[isa], wish) != 0)
        isa++;
    if (isa == KERN_ISAS) {
        snprintf(why, PROCESSOR_WHY, "JOBCTL_CPU is \"%.40s\"; choose base, avx2 or avx512", wish);
        return -1;
    }
    const char *lacks = processor_lacks((enum kern_isa)isa);
    if (!lacks)
        return isa;
    snprintf(why, PROCESSOR_WHY, "JOBCTL_CPU asks for %s, which needs %s; this machine (%s) does not "
             "have it: unset JOBCTL_CPU, or use %s", wish, lacks, here.model, isa_names[widest()]);
    return -1;
}
