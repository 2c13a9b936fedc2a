/* SPDX-License-Identifier: Apache-2.0 */
/* caption_style.h - changes a caption as diffusers' pipelines do: Python's text.lower().strip()
 *
 * Letters are mapped one by one as by the C library's C.UTF-8 locale, with Python's two exceptions: a sigma at the
 * end of a word, and the capital I with a dot, which becomes two characters. Bytes that are not UTF-8 stay.
 */
#ifndef ENGINE_TEXT_CAPTION_STYLE_H
#define ENGINE_TEXT_CAPTION_STYLE_H

#include <stddef.h>

struct err;

/* A new text of *bytes bytes, ended by 0, which the caller frees. NULL: no memory. */
char *caption_style_diffusers(const char *caption, size_t n, size_t *bytes, struct err *err);

#endif
