/* SPDX-License-Identifier: Apache-2.0 */
/* lock_bundle.c - see lock_bundle.h */
#include "agent/os/lock_bundle.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/err.h"

enum { AT_ONCE = 250 }; /* the kernel's limit for one message is 253 */

int lock_bundle_open(struct lock_bundle *b, struct err *err)
{
    int ends[2];
    *b = (struct lock_bundle)LOCK_BUNDLE_NONE;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return err_set_errno(err, errno, "cannot make a socket that holds locks");
    *b = (struct lock_bundle){.hold = ends[0], .add = ends[1]};
    return 0;
}

/* One message with up to AT_ONCE descriptors. */
static int put(const struct lock_bundle *b, const int *fds, int count)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * AT_ONCE)];
    char byte = 0;
    struct iovec one = {&byte, 1};
    struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control,
                       .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&m);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    memcpy(CMSG_DATA(head), fds, sizeof(int) * (size_t)count);
    return sendmsg(b->add, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

int lock_bundle_add(const struct lock_bundle *b, const int *fds, int count, struct err *err)
{
    for (int done = 0; done < count; done += AT_ONCE) {
        if (put(b, fds + done, count - done < AT_ONCE ? count - done : AT_ONCE) == 0)
            continue;
        const int why = errno;
        lock_bundle_empty(b);
        return err_set_errno(err, why, "cannot keep %d locks in one descriptor", count);
    }
    return 0;
}

void lock_bundle_empty(const struct lock_bundle *b)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * AT_ONCE)];
    char byte;
    struct iovec one = {&byte, 1};
    for (;;) {
        struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = control,
                           .msg_controllen = sizeof(control)};
        if (b->hold < 0 || recvmsg(b->hold, &m, MSG_CMSG_CLOEXEC) <= 0)
            return;
        for (struct cmsghdr *head = CMSG_FIRSTHDR(&m); head; head = CMSG_NXTHDR(&m, head)) {
            const size_t n = head->cmsg_type == SCM_RIGHTS ? (head->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
            for (size_t i = 0; i < n; i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
                close(fd);
            }
        }
    }
}
