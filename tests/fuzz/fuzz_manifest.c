/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_manifest.c - a checkpoint's manifest that may have been changed
 *
 * An accepted manifest names only files in its own directory, and verifying it reads nothing else.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"
#include "engine/contract/manifest.h"
#include "tests/fuzz/target.h"

static char dir[PATH_MAX];

static void leave(void)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof(path), "%s/" MANIFEST_FILE, dir);
    unlink(path);
    rmdir(dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[PATH_MAX + 32];
    struct manifest m;
    struct err err = {0};
    if (!dir[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(dir, sizeof(dir), "%s/manifest.XXXXXX", tmp ? tmp : "/tmp");
        PROMISE(mkdtemp(dir));
        atexit(leave);
    }
    snprintf(path, sizeof(path), "%s/" MANIFEST_FILE, dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    PROMISE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    if (manifest_read(&m, dir, &err) < 0) {
        PROMISE(err.code == ERR_DATA && err.text[0]);
        return 0;
    }
    PROMISE(m.len >= 1 && m.len <= MANIFEST_FILES);
    for (int i = 0; i < m.len; i++)
        PROMISE(m.files[i].name[0] && m.files[i].name[0] != '.' && !strchr(m.files[i].name, '/'));
    PROMISE(manifest_verify(&m, dir, &err) < 0); /* the files are not there */
    return 0;
}
