/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - one failure, told in one sentence
 *
 * The caller owns the struct, usually on its stack, zeroed, and passes it down.
 * Where a failure is first known, err_set() writes the sentence; a function
 * that only passes it up may put words in front with err_prefix().  Libraries
 * fill this in and never log: the program at the top decides who reads it.
 */
#ifndef ENGINE_CONTRACT_ERR_H
#define ENGINE_CONTRACT_ERR_H

enum err_code {
    ERR_NONE = 0,
    ERR_USAGE,      /* the request cannot be right: fix it and ask again */
    ERR_CONFLICT,   /* the request is right, but not in the present state */
    ERR_NOT_FOUND,  /* there is no such thing */
    ERR_SYSTEM,     /* the system refused: disk, network, process, device */
    ERR_DATA,       /* outside bytes are not what they claim to be */
    ERR_MEMORY,     /* out of host memory */
    ERR_NO_DEVICE,  /* the device that was asked for cannot be used */
    ERR_DEVICE_MEMORY, /* out of the device's memory */
    ERR_DEVICE,     /* the device failed */
    ERR_BUG         /* we broke our own rule */
};

struct err {
    enum err_code code;
    char          text[504];
};

/* Both accept err == NULL and always return -1, for `return err_set(...)`.
 * err_set() keeps the first failure: a later one is most often its echo.
 * A sentence that does not fit is cut at a character and ends in "..."; what it
 * quotes may be any bytes: the text is always one line of printable UTF-8. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int err_prefix(struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* What both do to the text, for other sentences that quote or are cut: each byte that is not part
 * of a printable UTF-8 character becomes '?', so that one line stays one line, a terminal is not
 * commanded and JSON can carry it. */
void err_make_printable(char *text);

/* Exit code of a jobctl program for `code` (0 done, 2 call, 3 state, 4 system, 70 bug). */
int err_exit_code(enum err_code code);

#endif
