/* SPDX-License-Identifier: Apache-2.0 */
/* install.c - see install.h */
#include "engine/contract/install.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool install_path(char *path, size_t size, const char *name)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(self, '/');
    const int folder = slash ? (int)(slash + 1 - self) : 0;
    if (slash && (size_t)snprintf(path, size, "%.*s%s", folder, self, name) < size)
        return true;
    snprintf(path, size, "%s", name);
    return false;
}

void install_find(char *path, size_t size, const char *name)
{
    if (install_path(path, size, name) && access(path, X_OK) != 0)
        snprintf(path, size, "%s", name);
}
