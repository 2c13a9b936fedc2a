/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - an error: code and one sentence
 *
 * The caller owns the struct, usually on its stack, zeroed, and passes it down.
 * The function that detects a failure writes the sentence with err_set(); a function
 * that passes the failure up may prepend context with err_prefix(). Libraries fill this in and never log: the main
 * program decides where it is printed.
 */
#ifndef ENGINE_BASE_ERR_H
#define ENGINE_BASE_ERR_H

enum err_code {
    ERR_NONE = 0,
    ERR_USAGE,      /* the request can never succeed: fix it and try again */
    ERR_CONFLICT,   /* the request is valid, but not in the present state */
    ERR_NOT_FOUND,  /* no such object */
    ERR_SYSTEM,     /* the system refused: disk, network, process, device */
    ERR_DATA,       /* outside data is malformed */
    ERR_MEMORY,     /* out of host memory */
    ERR_NO_DEVICE,  /* the requested device cannot be used */
    ERR_DEVICE_MEMORY, /* out of device memory */
    ERR_DEVICE,     /* the device's hardware reported a failure */
    ERR_CUDA,       /* a CUDA call failed, and no hardware reported an error: an illegal memory access */
    ERR_BUG         /* internal error: a bug in jobctl */
};

struct err {
    enum err_code code;
    int           errnum; /* for ERR_SYSTEM: the errno value, or 0 */
    char          text[504];
};

/* All accept err == NULL and always return -1, for `return err_set(...)`.
 * err_set() keeps the first failure: a later one is usually its consequence.
 * A sentence that does not fit is cut at a character and ends in "...". Quoted bytes may be arbitrary: the text is
 * always one line of printable UTF-8. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* ERR_SYSTEM with the class of errno value `errnum`; its text follows the sentence: "cannot write x: ...". */
int err_set_errno(struct err *err, int errnum, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int err_prefix(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The same cleaning for other text that quotes outside data or is truncated: each byte that is not
 * part of a printable UTF-8 character becomes '?', so that the text stays one line, sends no
 * terminal commands and is valid in JSON. */
void err_make_printable(char *text);

/* Exit code of a jobctl program for `code` (0 success, 2 usage, 3 state, 4 system, 70 bug). */
int err_exit_code(enum err_code code);

#endif
