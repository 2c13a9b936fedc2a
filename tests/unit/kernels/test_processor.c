/* SPDX-License-Identifier: Apache-2.0 */
/* test_processor.c - choice of the kernel table per processor, and what is refused */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "kernels/processor.h"

static void the_baseline_runs_everywhere(void **state)
{
    (void)state;
    assert_null(processor_lacks(KERN_BASE));
    assert_non_null(kern_cpu_isa(KERN_BASE));
    assert_true(processor_model()[0]);
}

/* No set runs where a narrower one does not. */
static void wider_sets_need_the_narrower_ones(void **state)
{
    (void)state;
    if (processor_lacks(KERN_AVX2))
        assert_non_null(processor_lacks(KERN_AVX512));
}

static void each_table_runs_or_is_null(void **state)
{
    (void)state;
    for (int isa = 0; isa < KERN_ISAS; isa++) {
        const struct kern_ops *ops = kern_cpu_isa((enum kern_isa)isa);
        assert_int_equal(ops == NULL, processor_lacks((enum kern_isa)isa) != NULL);
        if (ops)
            assert_non_null(ops->adamw); /* its rows are filled */
    }
    assert_null(kern_cpu_isa(KERN_ISAS));
}

static void the_default_is_the_widest(void **state)
{
    (void)state;
    char why[PROCESSOR_WHY] = "";
    const int taken = processor_choose(NULL, why);
    assert_int_equal(taken, processor_choose("", why));
    assert_null(processor_lacks((enum kern_isa)taken));
    if (taken + 1 < KERN_ISAS)
        assert_non_null(processor_lacks((enum kern_isa)(taken + 1)));
}

static void a_choice_is_taken_or_refused_with_a_sentence(void **state)
{
    (void)state;
    for (int isa = 0; isa < KERN_ISAS; isa++) {
        char why[PROCESSOR_WHY] = "";
        static const char *const names[KERN_ISAS] = {"base", "avx2", "avx512"};
        const char *lacks = processor_lacks((enum kern_isa)isa);
        assert_int_equal(processor_choose(names[isa], why), lacks ? -1 : isa);
        assert_int_equal(strstr(why, "unset JOBCTL_CPU") != NULL, lacks != NULL);
    }
}

static void an_unknown_name_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"sse", "AVX2", "avx", "avx512f", "base "};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char why[PROCESSOR_WHY] = "";
        assert_int_equal(processor_choose(wrong[i], why), -1);
        assert_non_null(strstr(why, wrong[i]));
        assert_non_null(strstr(why, "choose base, avx2 or avx512"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_baseline_runs_everywhere),
        cmocka_unit_test(wider_sets_need_the_narrower_ones),
        cmocka_unit_test(each_table_runs_or_is_null),
        cmocka_unit_test(the_default_is_the_widest),
        cmocka_unit_test(a_choice_is_taken_or_refused_with_a_sentence),
        cmocka_unit_test(an_unknown_name_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
