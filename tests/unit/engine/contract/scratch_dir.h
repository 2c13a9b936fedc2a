/* SPDX-License-Identifier: Apache-2.0 */
/* scratch_dir.h - a private directory for a test, below $TMPDIR */
#ifndef TESTS_UNIT_ENGINE_CONTRACT_SCRATCH_DIR_H
#define TESTS_UNIT_ENGINE_CONTRACT_SCRATCH_DIR_H

#include <ftw.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* The path of a new one goes into `dir`; `name` begins its own name. The test fails where it cannot be made. */
static inline void scratch_dir_create(char *dir, size_t size, const char *name)
{
    const char *tmp = getenv("TMPDIR");
    const int n = snprintf(dir, size, "%s/jobctl-%s.XXXXXX", tmp && *tmp ? tmp : "/tmp", name);
    assert_true(n > 0 && (size_t)n < size);
    assert_non_null(mkdtemp(dir));
}

static inline int scratch_dir_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* With all that is in it; links are not followed. 0, or -1 as a teardown returns it. */
static inline int scratch_dir_remove(const char *dir)
{
    return nftw(dir, scratch_dir_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
