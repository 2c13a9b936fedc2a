/* SPDX-License-Identifier: Apache-2.0 */
/* test_json_memory.c - JSON waits for memory that comes back, and ends the program with a message if none does */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/json_memory.h"
#include "tests/unit/engine/contract/child_fixture.h"

/* LARGE comes from the system each time; as much as NEVER it never has. */
#define NEVER ((size_t)1 << 62)
enum { LARGE = 64 << 20, CODE = 4, OTHER_CODE = 5 };

static void limit(rlim_t bytes)
{
    struct rlimit r;
    getrlimit(RLIMIT_AS, &r);
    r.rlim_cur = bytes;
    setrlimit(RLIMIT_AS, &r);
}

static void *give_back(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    limit(RLIM_INFINITY);
    return NULL;
}

/* In a child: a string for which there is no memory, or only later. */
static int make_string(unsigned later)
{
    pthread_t thread;
    const size_t bytes = later ? LARGE : NEVER;
    char *text = calloc(1, LARGE);
    json_memory_open("program", CODE);
    if (!text || (later && pthread_create(&thread, NULL, give_back, NULL) != 0))
        return OTHER_CODE;
    if (later)
        limit(0);
    json_t *made = json_stringn_nocheck(text, bytes);
    return made && json_string_length(made) == bytes ? 0 : OTHER_CODE;
}

static void test_ends(void **state)
{
    char said[512];
    (void)state;
    assert_int_equal(child_run(make_string, false, said, sizeof(said)), CODE);
    assert_string_equal(said, "program: out of memory: the system refused 4611686018427387905 bytes; free some and try "
                              "again\n");
}

static void test_waits(void **state)
{
    char said[512];
    (void)state;
    assert_int_equal(child_run(make_string, true, said, sizeof(said)), 0);
    assert_string_equal(said, "");
}

int main(void)
{
#ifdef __SANITIZE_ADDRESS__
    return 0; /* its own allocator ends the program */
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
