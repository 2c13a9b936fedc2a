/* SPDX-License-Identifier: Apache-2.0 */
/* test_hub_name.c - names of models on a hub, and the keys of a spec that have them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "engine/base/err.h"
#include "engine/hub/hub_name.h"
#include "engine/hub/hub_spec.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

static void the_parts_of_a_name(void **state)
{
    static const struct {
        const char *text, *owner, *repo, *revision, *file, *again;
    } rows[] = {
        {"hf://a/b", "a", "b", "main", "", "hf://a/b"},
        {"hf://a/b/", "a", "b", "main", "", "hf://a/b"},
        {"hf://a/b@main/x", "a", "b", "main", "x", "hf://a/b/x"},
        {"hf://A-1/b.c_d@v1.0/e/f g.pth", "A-1", "b.c_d", "v1.0", "e/f g.pth", NULL},
        {"hf://a/b@" COMMIT "/vae", "a", "b", COMMIT, "vae", NULL},
        {"hf://a/b@refs/pr/3", "a", "b", "refs/pr/3", "", "hf://a/b@refs%2Fpr%2F3"},
        {"hf://a/b@refs/convert/x/vae/", "a", "b", "refs/convert/x", "vae", "hf://a/b@refs%2Fconvert%2Fx/vae"},
        {"hf://a/b@feature%2Fx/y", "a", "b", "feature/x", "y", NULL},
        {"hf://a/b/x@y", "a", "b", "main", "x@y", NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct hub_name n;
        char text[HUB_NAME_TEXT];
        assert_int_equal(hub_name_parse(&n, rows[i].text, NULL), 0);
        assert_string_equal(n.owner, rows[i].owner);
        assert_string_equal(n.repo, rows[i].repo);
        assert_string_equal(n.revision, rows[i].revision);
        assert_string_equal(n.file, rows[i].file);
        hub_name_text(text, &n, NULL);
        assert_string_equal(text, rows[i].again ? rows[i].again : rows[i].text);
    }
}

/* A name becomes a path in the cache and an address: nothing may lead out of them. */
static void what_is_no_name_is_refused(void **state)
{
    static const char *const texts[] = {
        "", "a/b", "hf:/a/b", "hf://", "hf://a", "hf://a/", "hf:///b", "hf://../b", "hf://a/..", "hf://a/.", "hf://a/b@",
        "hf://a/b@/x", "hf://a/b@..", "hf://a/b@../x", "hf://a/b@x%2F..", "hf://a/b@%2Fx", "hf://a/b@x%2F", "hf://a/b//x",
        "hf://a/b/../x", "hf://a/b/x/..", "hf://a/b/x/./y", "hf://a/b/x\\y", "hf://a/b/x\ny", "hf://a b/c", "hf://a/b?x",
        "hf://a/b@x?y", "hf://a/b@x#y", "hf://a/b@x:y", "hf://u:p@host/a/b", "hf://a%2Fb/c",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct hub_name n;
        struct err err = {0};
        if (hub_name_parse(&n, texts[i], &err) == 0)
            fail_msg("taken: %s", texts[i]);
        assert_int_equal(err.code, ERR_USAGE);
        assert_non_null(strstr(err.text, "expected hf://OWNER/REPO"));
    }
    assert_true(hub_name_is_commit(COMMIT));
    assert_false(hub_name_is_commit("0123456789ABCDEF0123456789abcdef01234567"));
    assert_false(hub_name_is_commit("0123456789abcdef"));
}

static void the_keys_of_a_spec(void **state)
{
    struct hub_spec_name list[HUB_SPEC_NAMES];
    json_t *spec = json_loads("{\"train\":{\"model\":{\"weights\":\"hf://a/b\"}},\"resume\":\"/x/y\"}", 0, NULL);
    (void)state;
    assert_int_equal(hub_spec_names(list, spec), 1);
    assert_string_equal(list[0].key, "train.model.weights");
    assert_string_equal(list[0].parts, "transformer");
    json_object_set_new(list[0].map, list[0].last, json_string("hf://a/b@" COMMIT));
    assert_int_equal(hub_spec_names(list, spec), 1);
    assert_string_equal(list[0].text, "hf://a/b@" COMMIT);
    json_decref(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_name),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(the_keys_of_a_spec),
    };
    return cmocka_run_group_tests_name("test_hub_name", tests, NULL, NULL);
}
