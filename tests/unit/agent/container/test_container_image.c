/* SPDX-License-Identifier: Apache-2.0 */
/* test_container_image.c - valid and invalid image names, and their form for each runtime */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/container/container_image.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void names_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *image, *why; /* a part of the sentence; NULL: right */
    } rows[] = {
        {"busybox", NULL}, {"localhost/t:1", NULL}, {"nvcr.io/nvidia/pytorch:24.05-py3", NULL},
        {"docker://ghcr.io/a/b_c/d-e:v1.0", NULL}, {"box:5000/x@sha256:" HEX, NULL}, {"/images/a.sif", NULL},
        {"a/b__c", NULL},
        {"~/a.sif", NULL}, {"a.sqsh", NULL},
        {"PyTorch/pytorch", "lower-case letters"}, {"a b", "' ' is not allowed"}, {"Foo:bar:x", "lower-case letters"},
        {"foo:bar:x", "a tag has"}, {"foo:", "a tag has"}, {"foo:-x", "a tag has"}, {"/x/a,b.sif", "','"},
        {"foo/", "begins and ends"}, {"foo//bar", "begins and ends"}, {"-foo", "begins and ends"}, {"--rm", "begins and ends"},
        {"foo@sha256:12", "64 hexadecimal"}, {"oci://x/y", "is docker://"}, {"localhost/", "no path"}, {"", "no path"},
        {"ho_st.x/a", "its registry"}, {"$(reboot)", "'$' is not allowed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {.code = ERR_NONE};
        const int rc = container_image_check(rows[i].image, &err);
        if ((rc < 0) != (rows[i].why != NULL) || (rows[i].why && !strstr(err.text, rows[i].why)))
            fail_msg("%s: %d, %s", rows[i].image, rc, err.text);
    }
}

static void each_runtime_has_its_own_form(void **state)
{
    (void)state;
    static const struct {
        const char *image, *full, *enroot, *file;
    } rows[] = {
        {"busybox", "docker.io/library/busybox:latest", "docker://library/busybox:latest",
         "docker.io+library+busybox,latest"},
        {"a/b:1", "docker.io/a/b:1", "docker://a/b:1", "docker.io+a+b,1"},
        {"docker://nvcr.io/nvidia/pytorch:24", "nvcr.io/nvidia/pytorch:24", "docker://nvcr.io#nvidia/pytorch:24",
         "nvcr.io+nvidia+pytorch,24"},
        {"localhost:5000/x@sha256:" HEX, "localhost:5000/x@sha256:" HEX, "docker://localhost:5000#x@sha256:" HEX,
         "localhost,5000+x=sha256," HEX},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char out[CONTAINER_IMAGE_NAME];
        container_image_full(out, rows[i].image);
        assert_string_equal(out, rows[i].full);
        container_image_enroot(out, rows[i].image);
        assert_string_equal(out, rows[i].enroot);
        container_image_file_name(out, rows[i].image);
        assert_string_equal(out, rows[i].file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(each_runtime_has_its_own_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
