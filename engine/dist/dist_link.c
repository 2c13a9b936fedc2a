/* SPDX-License-Identifier: Apache-2.0 */
/* dist_link.c - see dist_link.h */
#include "engine/dist/dist_link.h"

#include <errno.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

void dist_link_end(struct dist_link *l)
{
    dist_link_flush(l);
    for (int i = 0; i < DIST_LINK_CHANNELS; i++)
        if (l->fd[i] >= 0)
            shutdown(l->fd[i], SHUT_WR);
}

bool dist_link_sent(const struct dist_link *l)
{
    for (int i = 0; i < DIST_LINK_CHANNELS; i++) {
        int waiting = 0;
        if (l->fd[i] >= 0 && ioctl(l->fd[i], SIOCOUTQ, &waiting) == 0 && waiting > 0)
            return false;
    }
    return true;
}

void dist_link_close(struct dist_link *l)
{
    for (int i = 0; i < DIST_LINK_CHANNELS; i++) {
        if (l->fd[i] >= 0)
            close(l->fd[i]);
        l->fd[i] = -1;
    }
}

void dist_link_flush(struct dist_link *l)
{
    while (l->out_have > 0 && l->fd[DIST_LINK_WORDS] >= 0) {
        ssize_t n = send(l->fd[DIST_LINK_WORDS], l->out, l->out_have, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                l->out_have = 0; /* the peer is gone; the end of its message stream tells */
            return;
        }
        l->out_have -= (size_t)n;
        memmove(l->out, l->out + n, l->out_have);
    }
}

bool dist_link_say(struct dist_link *l, const struct dist_word *w)
{
    dist_link_flush(l);
    if (l->out_have + sizeof(*w) > sizeof(l->out))
        return false;
    memcpy(l->out + l->out_have, w, sizeof(*w));
    l->out_have += sizeof(*w);
    dist_link_flush(l);
    return true;
}

bool dist_link_hear(struct dist_link *l, uint64_t key, struct dist_word *w)
{
    while (!l->gone) {
        ssize_t n = recv(l->fd[DIST_LINK_WORDS], l->in + l->in_have, sizeof(l->in) - l->in_have, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n <= 0)
            break;
        l->in_have += (size_t)n;
        if (l->in_have < sizeof(l->in))
            continue;
        memcpy(w, l->in, sizeof(*w));
        l->in_have = 0;
        if (w->key != key)
            break; /* not a rank of ours */
        l->bye = l->bye || w->kind == WORD_BYE;
        return true;
    }
    l->gone = true;
    return false;
}
