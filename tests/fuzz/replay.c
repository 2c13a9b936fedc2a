/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - runs a fuzz target over the files of its corpus, without libFuzzer
 *
 *   fuzz_NOUN FILE|FOLDER...
 *
 * The input is in a block of exactly its size, so that the address sanitizer detects a read past its end. The last line
 * names an input that aborts.
 */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/target.h"

static int replayed;

static int replay_file(const char *path)
{
    int r = -1;
    uint8_t *bytes = NULL;
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) < 0)
        goto out;
    long size = ftell(f);
    if (size < 0 || fseek(f, 0, SEEK_SET) < 0)
        goto out;
    bytes = malloc((size_t)size ? (size_t)size : 1);
    if (!bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size)
        goto out;
    fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(bytes, (size_t)size);
    replayed++;
    r = 0;
out:
    if (r < 0)
        perror(path);
    free(bytes);
    if (f)
        fclose(f);
    return r;
}

static int replay_folder(const char *path)
{
    struct dirent **entry = NULL;
    int bad = 0, len = scandir(path, &entry, NULL, alphasort);
    if (len < 0)
        return replay_file(path);
    for (int i = 0; i < len; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entry[i]->d_name);
        struct stat st;
        if (stat(name, &st) == 0 && S_ISREG(st.st_mode))
            bad |= replay_file(name);
        free(entry[i]);
    }
    free(entry);
    return bad;
}

int main(int argc, char **argv)
{
    int bad = argc < 2;
    for (int i = 1; i < argc; i++)
        bad |= replay_folder(argv[i]);
    if (!replayed)
        fprintf(stderr, "%s: no input was replayed; it takes files and folders\n", argv[0]);
    else if (!bad)
        printf("%s: %d inputs replayed\n", basename(argv[0]), replayed);
    return bad || !replayed;
}
