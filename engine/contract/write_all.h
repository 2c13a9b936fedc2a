/* SPDX-License-Identifier: Apache-2.0 */
/* write_all.h - all bytes into a descriptor that waits, however many calls it takes */
#ifndef ENGINE_CONTRACT_WRITE_ALL_H
#define ENGINE_CONTRACT_WRITE_ALL_H

#include <stddef.h>

/* 0, or -1 with errno set; some of the bytes may have been written then. */
int write_all(int fd, const void *bytes, size_t size);

#endif
