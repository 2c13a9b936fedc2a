/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_sockets.c - see tcp_sockets.h */
#include "agent/os/tcp_sockets.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>

enum { ESTABLISHED = 1, CLOSE_WAIT = 8, LISTEN = 10, BUFFER = 32768 }; /* states of TCP in the kernel */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

struct list {
    struct tcp_socket *sockets;
    size_t n, room;
};

static void set_end(struct tcp_end *end, int family, const void *address, uint16_t port)
{
    memcpy(end->address, mapped, sizeof(mapped));
    memcpy(end->address + (family == AF_INET ? 12 : 0), address, family == AF_INET ? 4 : 16);
    end->port = ntohs(port);
}

static uint64_t bytes_of(struct inet_diag_msg *m, int size)
{
    struct rtattr *a = (struct rtattr *)(m + 1);
    struct tcp_info info = {0};
    for (size -= (int)sizeof(*m); RTA_OK(a, size); a = RTA_NEXT(a, size))
        if (a->rta_type == INET_DIAG_INFO)
            memcpy(&info, RTA_DATA(a), RTA_PAYLOAD(a) < sizeof(info) ? RTA_PAYLOAD(a) : sizeof(info));
    return info.tcpi_bytes_acked + info.tcpi_bytes_received;
}

static bool add(struct list *l, struct inet_diag_msg *m, int size)
{
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        struct tcp_socket *more = realloc(l->sockets, room * sizeof(*more));
        if (!more)
            return false;
        l->sockets = more;
        l->room = room;
    }
    struct tcp_socket *s = &l->sockets[l->n++];
    *s = (struct tcp_socket){.inode = m->idiag_inode, .listens = m->idiag_state == LISTEN, .bytes = bytes_of(m, size)};
    set_end(&s->local, m->idiag_family, m->id.idiag_src, m->id.idiag_sport);
    set_end(&s->peer, m->idiag_family, m->id.idiag_dst, m->id.idiag_dport);
    return true;
}

/* True: there is more to receive. */
static bool take(struct list *l, struct nlmsghdr *h, size_t size)
{
    for (; NLMSG_OK(h, size); h = NLMSG_NEXT(h, size))
        if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || h->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
            !add(l, NLMSG_DATA(h), (int)(h->nlmsg_len - NLMSG_LENGTH(0))))
            return false;
    return true;
}

static void dump(struct list *l, int fd, uint8_t family)
{
    static _Alignas(struct nlmsghdr) char bytes[BUFFER]; /* one thread */
    struct {
        struct nlmsghdr         head;
        struct inet_diag_req_v2 body;
    } ask = {{.nlmsg_len = sizeof(ask), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
             {.sdiag_family = family, .sdiag_protocol = IPPROTO_TCP, .idiag_ext = 1 << (INET_DIAG_INFO - 1),
              .idiag_states = 1 << ESTABLISHED | 1 << CLOSE_WAIT | 1 << LISTEN}};
    ssize_t n = send(fd, &ask, sizeof(ask), 0);
    while (n > 0 && (n = recv(fd, bytes, sizeof(bytes), 0)) > 0 && take(l, (struct nlmsghdr *)bytes, (size_t)n))
        ;
}

struct tcp_socket *tcp_sockets_read(size_t *count)
{
    struct list l = {NULL, 0, 0};
    const int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd >= 0) {
        dump(&l, fd, AF_INET);
        dump(&l, fd, AF_INET6);
        close(fd);
    }
    *count = l.n;
    return l.sockets;
}

void tcp_sockets_address(uint8_t out[16], const char *text)
{
    memset(out, 0, 16);
    if (text && inet_pton(AF_INET, text, out + 12) == 1)
        memcpy(out, mapped, sizeof(mapped));
    else if (text)
        (void)inet_pton(AF_INET6, text, out);
}
