/* SPDX-License-Identifier: Apache-2.0 */
/* test_container_mounts.c - what a container sees, and which variables go into it */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/container/container_env.h"
#include "agent/container/container_mounts.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static void expect(struct container_mounts *m, const char *want)
{
    char text[1000] = "";
    container_mounts_settle(m);
    for (int i = 0; i < m->n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s:%s%s", i ? " " : "", m->all[i].from,
                 m->all[i].to, m->all[i].read_only ? ":ro" : "");
    assert_string_equal(text, want);
    container_mounts_fini(m);
}

static void a_directory_inside_another_needs_no_mount(void **state)
{
    (void)state;
    struct container_mounts m = {.n = 0};
    struct err err = {.code = ERR_NONE};
    container_mounts_add(&m, "/home/u/p/jobs/1", false, &err);
    container_mounts_add(&m, "/home/u/p", false, &err);
    container_mounts_add(&m, "/home/u/p2", false, &err);
    container_mounts_add(&m, "/home/u/p", false, &err);
    container_mounts_add(&m, "/home/u/p/load", true, &err);
    container_mounts_add(&m, NULL, true, &err);
    assert_true(container_mounts_cover(&m, "/home/u/p/x"));
    assert_false(container_mounts_cover(&m, "/home/u"));
    expect(&m, "/home/u/p:/home/u/p /home/u/p2:/home/u/p2");
}

static void a_writable_one_stays_inside_one_to_read(void **state)
{
    (void)state;
    struct container_mounts m = {.n = 0};
    struct err err = {.code = ERR_NONE};
    assert_int_equal(container_mounts_parse(&m, "/data:/data:ro", &err), 0);
    assert_int_equal(container_mounts_parse(&m, "/data/set:/set", &err), 0);
    assert_int_equal(container_mounts_parse(&m, "/data", &err), 0);
    container_mounts_add(&m, "/data/out", false, &err);
    expect(&m, "/data:/data /data/set:/set");
    assert_int_equal(container_mounts_parse(&m, "/data:/data:ro", &err), 0);
    container_mounts_add(&m, "/data/out", false, &err);
    expect(&m, "/data:/data:ro /data/out:/data/out");
}

static void mistakes_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {{"data", "not an absolute path"}, {"/a:b", "target \"b\""}, {"/a:/b:rx", "expected SOURCE"},
                {"/a:", "expected SOURCE"}, {"/a,b", "contains ','"}, {"/", "over the root"}, {"/a:/", "over the root"},
                {"/a:/b:ro:x", "expected SOURCE"}};
    struct container_mounts m = {.n = 0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct err err = {.code = ERR_NONE};
        if (container_mounts_parse(&m, rows[i].text, &err) == 0 || !strstr(err.text, rows[i].why))
            fail_msg("%s: %s", rows[i].text, err.text);
    }
    assert_int_equal(m.n, 0);
}

static void variables_of_the_node_stay_outside(void **state)
{
    (void)state;
    char *const node[] = {(char[]){"PATH=/bin"}, (char[]){"PYTHONPATH=/x"}, (char[]){"HF_HOME=/hf"}, NULL};
    static const struct {
        const char *entry;
        enum container_env_way way;
    } rows[] = {
        {"PATH=/bin", CONTAINER_ENV_TOOL}, {"PATH=/job/bin", CONTAINER_ENV_SET}, {"PYTHONPATH=/x", CONTAINER_ENV_LEAVE},
        {"PYTHONPATH=/repo", CONTAINER_ENV_SET}, {"HF_HOME=/hf", CONTAINER_ENV_PASS}, {"RANK=0", CONTAINER_ENV_PASS},
        {"NCCL_DEBUG=INFO", CONTAINER_ENV_PASS}, {"BASH_FUNC_f%%=() { :; }", CONTAINER_ENV_LEAVE},
        {"LC_ALL=C", CONTAINER_ENV_SET}, {"_=/bin/x", CONTAINER_ENV_SET}, {"_X=1", CONTAINER_ENV_PASS},
        {"XDG_RUNTIME_DIR=/run/user/1", CONTAINER_ENV_SET}, {"1X=2", CONTAINER_ENV_LEAVE},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (container_env_way(rows[i].entry, node) != rows[i].way)
            fail_msg("%s: %d", rows[i].entry, (int)container_env_way(rows[i].entry, node));
    assert_string_equal(container_env_find(node, "PATH=/other"), "PATH=/bin");
    assert_null(container_env_find(node, "PAT=1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_directory_inside_another_needs_no_mount),
        cmocka_unit_test(a_writable_one_stays_inside_one_to_read),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(variables_of_the_node_stay_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
