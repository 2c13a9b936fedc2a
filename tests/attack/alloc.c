/* SPDX-License-Identifier: Apache-2.0 */
/* alloc.c - allocations that fail on demand; see faults.h
 *
 * strdup, asprintf, getline and all other functions of the C library allocate by these.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "tests/attack/faults.h"

/* The allocator of glibc by its own names, which dlsym() cannot give: it allocates itself. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool hit(const char *call)
{
    return faults_hit(FAULT_MEMORY, call, AT_FDCWD, NULL);
}

void *malloc(size_t size)
{
    return hit("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return hit("calloc") ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return hit("realloc") ? NULL : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t n, size_t size)
{
    size_t all;
    if (__builtin_mul_overflow(n, size, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return hit("reallocarray") ? NULL : __libc_realloc(old, all);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return hit("aligned_alloc") ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    void *made = hit("posix_memalign") ? NULL : __libc_memalign(alignment, size);
    if (made)
        *out = made;
    return made ? 0 : ENOMEM;
}
