/* SPDX-License-Identifier: Apache-2.0 */
/* test_container_choice.c - which runtime a node uses, and the error if none fits */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "agent/container/container_choice.h"
#include "engine/base/err.h"
#include "engine/base/field.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const struct {
    const char *found, *image, *runtime, *text; /* runtime "": refused; text: a part of reason or sentence */
} rows[] = {
    {"[{'runtime':'podman','why':''},{'runtime':'docker','why':''}]", "{'image':'a','runtime':'auto'}", "podman",
     "the first in the order podman, docker, apptainer, singularity, enroot"},
    {"[{'runtime':'docker','why':'is installed, but its daemon does not run'},{'runtime':'apptainer','why':''}]",
     "{'image':'a','runtime':'auto'}", "apptainer", "that this node has; docker is installed, but its daemon"},
    {"[{'runtime':'podman','why':''},{'runtime':'docker','why':''}]", "{'image':'a','runtime':'docker'}", "docker",
     "set by image.runtime"},
    {"[{'runtime':'podman','why':''}]", "{'image':'a','runtime':'docker'}", "",
     "docker is not installed on this node; install it"},
    {"[{'runtime':'docker','why':'may not be used'}]", "{'image':'a','runtime':'docker'}", "",
     "docker may not be used on"},
    {"[{'runtime':'podman','why':''},{'runtime':'apptainer','why':''}]", "{'image':'/x.sif','runtime':'auto'}",
     "apptainer", "podman does not read such a file"},
    {"[{'runtime':'podman','why':''}]", "{'image':'/x.sif','runtime':'auto'}", "",
     "no runtime for /x.sif: podman does not read such a file"},
    {"[{'runtime':'podman','why':''}]", "{'image':'/x.sif','runtime':'podman'}", "",
     "podman cannot run the file /x.sif"},
    {"[{'runtime':'enroot','why':''}]", "{'image':'/x.sqsh','runtime':'auto'}", "enroot", "that this node has"},
    {"[]", "{'image':'a','runtime':'auto'}", "", "this node has no runtime for a; install podman"},
};

static json_t *json_of(const char *text)
{
    char good[600];
    size_t n = 0;
    for (; text[n]; n++)
        good[n] = text[n] == '\'' ? '"' : text[n];
    return json_loadb(good, n, 0, NULL);
}

static void the_first_that_fits_is_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char why[400] = "";
        struct err err = {.code = ERR_NONE};
        json_t *found = json_of(rows[i].found), *image = json_of(rows[i].image);
        const json_t *row = container_choice(found, image, why, sizeof(why), &err);
        const char *asked = field_text(image, "runtime");
        assert_string_equal(container_choice_key(image), asked[0] && strcmp(asked, "auto") ? "image.runtime" : "image");
        if (strcmp(field_text(row, "runtime"), rows[i].runtime) != 0 || !strstr(row ? why : err.text, rows[i].text))
            fail_msg("%s of %s: %s, %s", rows[i].image, rows[i].found, field_text(row, "runtime"), row ? why : err.text);
        json_decref(found);
        json_decref(image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_first_that_fits_is_taken)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
