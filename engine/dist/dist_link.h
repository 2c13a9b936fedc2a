/* SPDX-License-Identifier: Apache-2.0 */
/* dist_link.h - what two ranks on different nodes say to each other, over TCP
 *
 * A link is two connections: one for words (short, fixed, always read at once) and
 * one for bytes (the numbers, read when there is room for them).  So news of a
 * failure never waits behind numbers.  Every word carries the key of its job,
 * attempt and generation: a stranger's is not believed.
 */
#ifndef ENGINE_DIST_DIST_LINK_H
#define ENGINE_DIST_DIST_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dist_link_channel { DIST_LINK_WORDS, DIST_LINK_BYTES, DIST_LINK_CHANNELS };

enum dist_link_kind {
    WORD_CALL = 1, /* I am in call `seq`; what it is */
    WORD_WAITS,    /* I wait for somebody on my node: rank `what`; UINT64_MAX: no more */
    WORD_FAULT,    /* it is over: `what` is the kind, `count` the rank + 1 */
    WORD_BYE       /* I leave, having done all calls that I began */
};

struct dist_word {
    uint64_t key;
    uint32_t kind, spare;
    uint64_t seq, what, count;
};

enum { WORDS_OUT = 64 };

struct dist_link {
    int    fd[DIST_LINK_CHANNELS]; /* -1: not yet, or no more */
    bool   bye, gone;              /* it said goodbye; its words have ended */
    size_t in_have, out_have;      /* bytes of a word not yet whole; bytes not yet sent */
    char   in[sizeof(struct dist_word)], out[WORDS_OUT * sizeof(struct dist_word)];
};

/* Nothing more is said; what was said still goes. A close throws away what the other side's system
 * has not taken yet, so who leaves in peace waits for dist_link_sent() first. */
void dist_link_end(struct dist_link *l);
/* Has the other side's system all that was said (or will it never)? */
bool dist_link_sent(const struct dist_link *l);
void dist_link_close(struct dist_link *l);

/* Puts a word on its way; what the system does not take now goes with dist_link_flush(). False:
 * there is no room at all, try again. */
bool dist_link_say(struct dist_link *l, const struct dist_word *w);
void dist_link_flush(struct dist_link *l);

/* The next word that has come; false: none now. l->gone when there never will be one. */
bool dist_link_hear(struct dist_link *l, uint64_t key, struct dist_word *w);

#endif
