/* SPDX-License-Identifier: Apache-2.0 */
/* write_all.h - writes all bytes to a blocking descriptor, in as many calls as needed */
#ifndef ENGINE_BASE_WRITE_ALL_H
#define ENGINE_BASE_WRITE_ALL_H

#include <stddef.h>

/* 0, or -1 with errno set; some of the bytes may have been written then. */
int write_all(int fd, const void *bytes, size_t size);

#endif
