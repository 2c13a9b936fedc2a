/* SPDX-License-Identifier: Apache-2.0 */
/* probe_xid.c - GPU errors (Xids) in the kernel log since boot
 *
 * NVIDIA's driver logs "NVRM: Xid (PCI:0000:0a:00): 79, pid=..." for each GPU error. Containers
 * often cannot read the log: the fact is then null.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/buf.h"
#include "agent/os/sysroot.h"
#include "agent/probe/probe.h"

enum { LOG_MOST = 8 * 1024 * 1024, XIDS_MOST = 32 };

/* Each read() of /dev/kmsg returns one record; of a recorded file, a chunk. */
static int read_log(struct buf *out)
{
    char path[4096], piece[8192];
    sysroot_path(path, sizeof(path), "/dev/kmsg");
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n;
    while ((n = read(fd, piece, sizeof(piece))) != 0 && out->size < LOG_MOST) {
        if (n < 0 && errno != EPIPE && errno != EINTR) /* EPIPE: a record was overwritten */
            break;
        if (n > 0 && buf_append(out, piece, (size_t)n) < 0)
            break;
    }
    close(fd);
    return 0;
}

/* The kernel logs a prefix of "0000:0a:00.0", "0000:0a:00", in either case. */
static int names(const char *text, const char *pci)
{
    if (strncmp(text, "PCI:", 4) == 0)
        text += 4;
    size_t len = strspn(text, "0123456789abcdefABCDEF:.");
    return len > 0 && text[len] == ')' && strncasecmp(text, pci, len) == 0;
}

json_t *probe_xids(const char *pci)
{
    struct buf log = {0};
    int rc = read_log(&log);
    json_t *out = rc == 0 ? json_array() : json_null();
    for (const char *p = log.data; rc == 0 && pci && pci[0] && p && (p = strstr(p, "NVRM: Xid ("));) {
        p += strlen("NVRM: Xid (");
        const char *end = strpbrk(p, ")\n");
        if (end && *end == ')' && names(p, pci) && end[1] == ':' &&
            json_array_size(out) < XIDS_MOST)
            json_array_append_new(out, json_integer(strtol(end + 2, NULL, 10)));
    }
    buf_fini(&log);
    return out;
}
