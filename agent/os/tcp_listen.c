/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_listen.c - see tcp_listen.h */
#include "agent/os/tcp_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/err.h"

union address {
    struct sockaddr     any;
    struct sockaddr_in  v4;
    struct sockaddr_in6 v6;
};

static socklen_t size_of(const union address *a)
{
    return a->any.sa_family == AF_INET6 ? sizeof(a->v6) : sizeof(a->v4);
}

static bool parse_port(in_port_t *port, const char *text)
{
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    *port = htons((in_port_t)n);
    return text[0] >= '0' && text[0] <= '9' && !*end && n <= 65535;
}

static bool parse(union address *a, const char *at)
{
    char host[TCP_LISTEN_TEXT];
    const bool v6 = at[0] == '[';
    const char *colon = v6 ? strstr(at, "]:") : strchr(at, ':');
    const int n = colon ? (int)(colon - at) - v6 : 0;
    in_port_t port;
    if (n <= 0 || n >= (int)sizeof(host) || !parse_port(&port, colon + 1 + v6))
        return false;
    snprintf(host, sizeof(host), "%.*s", n, at + v6);
    *a = (union address){ 0 };
    if (v6)
        a->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = port };
    else
        a->v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = port };
    return inet_pton(a->any.sa_family, host, v6 ? (void *)&a->v6.sin6_addr : (void *)&a->v4.sin_addr) == 1;
}

int tcp_listen_check(const char *at, struct err *err)
{
    union address a;
    if (parse(&a, at))
        return 0;
    return err_set(err, ERR_USAGE, "\"%.60s\" is not an address and a port, such as 127.0.0.1:9473 or [::1]:9473", at);
}

static void print(char bound[TCP_LISTEN_TEXT], const union address *a)
{
    char host[INET6_ADDRSTRLEN] = "";
    const bool v6 = a->any.sa_family == AF_INET6;
    inet_ntop(a->any.sa_family, v6 ? (const void *)&a->v6.sin6_addr : (const void *)&a->v4.sin_addr, host, sizeof(host));
    snprintf(bound, TCP_LISTEN_TEXT, v6 ? "[%s]:%u" : "%s:%u", host, ntohs(v6 ? a->v6.sin6_port : a->v4.sin_port));
}

int tcp_listen(char bound[TCP_LISTEN_TEXT], const char *at, struct err *err)
{
    static const int yes = 1;
    union address a;
    socklen_t size = sizeof(a);
    if (tcp_listen_check(at, err) < 0)
        return -1;
    parse(&a, at);
    const int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        bind(fd, &a.any, size_of(&a)) == 0 && listen(fd, SOMAXCONN) == 0 && getsockname(fd, &a.any, &size) == 0) {
        print(bound, &a);
        return fd;
    }
    err_set_errno(err, errno, "cannot listen on %s", at);
    if (fd >= 0)
        close(fd);
    return -1;
}
