/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.h - reads a JSON text (RFC 8259) of many megabytes from front to back, without a tree
 *
 * For tokenizer.json, whose 256,000 pieces and 580,000 merges are too slow as jansson values. The caller requests the
 * expected next value; any other value is an error, "line 12: expected a string". After an error every call fails, so a
 * loop may look at the end.
 *
 *     for (json_scan_enter(&s, '{'); json_scan_more(&s, '}');) {
 *         json_scan_key(&s, &key);
 *         ...
 *     }
 */
#ifndef ENGINE_TEXT_JSON_SCAN_H
#define ENGINE_TEXT_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* Bytes in the text, or in the scanner's memory if there were escapes: then they are valid until the next string is
 * read. */
struct json_slice {
    const char *at;
    size_t      n;
};

struct json_scan {
    const char *text;
    size_t      size, at;
    bool        first;    /* no comma is needed before the next value */
    char       *unescaped;
    size_t      room;
    struct err *err;
};

/* Scans `text`, which must outlive it. */
void json_scan_begin(struct json_scan *s, const char *text, size_t size, struct err *err);
/* Frees it; -1 if anything failed. */
int json_scan_end(struct json_scan *s);
/* Sets the error, with the line: always -1. */
int json_scan_fail(struct json_scan *s, const char *what) __attribute__((nonnull));

/* The first byte of the next value: { [ " t f n - or a digit; 0 at the end or after an error. */
char json_scan_peek(struct json_scan *s);
/* Enters an object or a list. */
int json_scan_enter(struct json_scan *s, char open);
/* Is there another member? If not, leaves the object or list, or fails. */
bool json_scan_more(struct json_scan *s, char close);
/* A member's name and the colon. */
int json_scan_key(struct json_scan *s, struct json_slice *out);
/* A string without its quotes: UTF-8, except that bytes above 127 are not checked. */
int json_scan_string(struct json_scan *s, struct json_slice *out);
int json_scan_int(struct json_scan *s, int64_t *out);
/* Any value; `out` (or NULL) gets its bytes in the text. */
int json_scan_skip(struct json_scan *s, struct json_slice *out);

bool json_scan_is(const struct json_slice *t, const char *word);

#endif
