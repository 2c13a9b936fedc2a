/* SPDX-License-Identifier: Apache-2.0 */
/* test_spec_paths.c - each path key of `train:` is one that spec_paths.c resolves and checks */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_paths.h"
#include "engine/contract/train_spec.h"

/* How many mistakes a relative path at "map.key" of `train:` makes. */
static int objections(const char *path)
{
    struct spec_diagnostics found = {0};
    struct err err = {.code = ERR_NONE};
    const char *dot = strchr(path, '.');
    assert_non_null(dot);
    assert_int_equal(spec_diagnostics_init(&found, &err), 0);
    json_t *spec = json_pack("{s:{s#:{s:s}}}", "train", path, (int)(dot - path), dot + 1, "relative");
    assert_non_null(spec);
    spec_paths_check_absolute(spec, &found);
    const int count = found.found.count;
    json_decref(spec);
    spec_diagnostics_fini(&found);
    return count;
}

/* train.config is read when the file is parsed, and is no key of a canonical spec. */
static void test_rows(void **state)
{
    int paths = 0;
    (void)state;
    for (const struct spec_field *f = train_spec_fields(); f->path; f++) {
        if (f->type != FIELD_PATH || strcmp(f->path, "config") == 0)
            continue;
        paths++;
        if (objections(f->path) != 1)
            fail_msg("train.%s is a path that spec_paths.c does not resolve", f->path);
    }
    assert_true(paths >= 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
