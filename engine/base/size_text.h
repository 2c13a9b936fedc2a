/* SPDX-License-Identifier: Apache-2.0 */
/* size_text.h - a number of bytes as text, in a suitable unit: "12 bytes", "3.4 KiB", "1.5 MiB", "2.13 GiB" */
#ifndef ENGINE_BASE_SIZE_TEXT_H
#define ENGINE_BASE_SIZE_TEXT_H

#include <stdint.h>

enum { SIZE_TEXT = 32 };

/* Returns `out`. */
const char *size_text(int64_t bytes, char out[SIZE_TEXT]);

#endif
