/* SPDX-License-Identifier: Apache-2.0 */
/* key_text.h - a key of the job spec in words: its type, default and limits */
#ifndef CONTROLLER_HELP_KEY_TEXT_H
#define CONTROLLER_HELP_KEY_TEXT_H

#include <stddef.h>

struct spec_field;

/* "whole number", "list of maps", ... */
const char *key_text_type(const struct spec_field *f);

/* The default as YAML text; "-" if there is none. */
void key_text_default(char *out, size_t size, const struct spec_field *f);

#endif
