/* SPDX-License-Identifier: Apache-2.0 */
/* file_system.c - see file_system.h */
#include "agent/os/file_system.h"

#include <errno.h>
#include <stddef.h>
#include <sys/vfs.h>

#include "engine/base/err.h"

/* The numbers of statfs(2), which linux/magic.h has only in part. */
static const struct {
    unsigned long magic;
    const char   *name;
} shared[] = {
    {0x6969, "NFS"},        {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"},
    {0x00C36400, "CephFS"}, {0xAAD7AAEA, "PanFS"},  {0x517B, "SMB"},      {0xFF534D42, "CIFS"},
    {0xFE534D42, "SMB"},    {0x65735546, "FUSE"},   {0x01021997, "9p"},   {0x5346414F, "AFS"},
};

const char *file_system_shared(const char *path)
{
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
        if (((unsigned long)fs.f_type & 0xFFFFFFFF) == shared[i].magic)
            return shared[i].name;
    return NULL;
}

int file_system_lock_error(struct err *err, const char *path, int code)
{
    const char *name = file_system_shared(path);
    errno = code;
    if (code != ENOLCK && code != EOPNOTSUPP && code != ENOSYS)
        return err_set(err, ERR_SYSTEM, "cannot lock %s: %m", path);
    return err_set(err, ERR_SYSTEM,
                   "cannot lock %s: its file system%s%s%s has no locks; set JOBCTL_HOME to a directory on a local disk",
                   path, name ? " (" : "", name ? name : "", name ? ")" : "");
}
