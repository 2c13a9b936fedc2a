/* SPDX-License-Identifier: Apache-2.0 */
/* container_image.c - see container_image.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_image.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/err.h"
#include "engine/base/text_append.h"

#define DOCKER "docker://"
#define SHOWN 120

enum { NAME_MAX_CHARS = 400, TAG_MAX = 128 };

bool container_image_is_file(const char *image)
{
    return image[0] == '/' || image[0] == '~' || strncmp(image, "./", 2) == 0 || strncmp(image, "../", 3) == 0 ||
           text_ends_with(image, ".sif") || text_ends_with(image, ".sqsh");
}

const char *container_image_short(const char *image)
{
    return strncmp(image, DOCKER, strlen(DOCKER)) == 0 ? image + strlen(DOCKER) : image;
}

/* The parts of a name: registry (with its '/'), path, ":tag", "@digest"; lengths in bytes. */
struct parts {
    const char *registry, *path, *tag, *digest;
    size_t registry_n, path_n, tag_n, digest_n;
};

/* A first part with a '.', a port, or "localhost" is a registry, as docker has it. */
static size_t registry_length(const char *name)
{
    const char *slash = strchr(name, '/');
    const size_t n = slash ? (size_t)(slash - name) : 0;
    const bool is = n > 0 && (memchr(name, '.', n) || memchr(name, ':', n) ||
                              (n == 9 && !strncmp(name, "localhost", 9)));
    return is ? n + 1 : 0;
}

static struct parts split(const char *name)
{
    struct parts p = {.registry = name, .registry_n = registry_length(name)};
    p.path = name + p.registry_n;
    p.path_n = strcspn(p.path, ":@");
    p.tag = p.path + p.path_n;
    p.tag_n = *p.tag == ':' ? strcspn(p.tag, "@") : 0;
    p.digest = p.tag + p.tag_n;
    p.digest_n = strlen(p.digest);
    return p;
}

static int check_path(const struct parts *p, const char *name, struct err *err)
{
    for (size_t i = 0; i < p->path_n; i++) {
        const unsigned char c = (unsigned char)p->path[i];
        const bool edge = i == 0 || i + 1 == p->path_n || p->path[i - 1] == '/' || p->path[i + 1] == '/';
        if (isupper(c))
            return err_set(err, ERR_USAGE, "\"%.*s\" is not the name of an image: use lower-case letters", SHOWN, name);
        if (!(islower(c) || isdigit(c) || strchr("._-/", c)))
            return err_set(err, ERR_USAGE, "\"%.*s\" is not the name of an image: '%c' is not allowed", SHOWN, name,
                           isprint(c) ? c : '?');
        if (edge && strchr("._-/", c) && !(c == '/' && i > 0 && i + 1 < p->path_n && p->path[i - 1] != '/'))
            return err_set(err, ERR_USAGE, "\"%.*s\" is not the name of an image: each part of its path begins and "
                                           "ends with a letter or a digit", SHOWN, name);
    }
    return p->path_n ? 0 : err_set(err, ERR_USAGE, "\"%.*s\" is not the name of an image: it has no path", SHOWN, name);
}

static int check_registry(const struct parts *p, const char *name, struct err *err)
{
    for (size_t i = 0; i + 1 < p->registry_n; i++)
        if (!isalnum((unsigned char)p->registry[i]) && !strchr(".-:", p->registry[i]))
            return err_set(err, ERR_USAGE, "\"%.*s\" is not the name of an image: its registry may contain letters, "
                           "digits, '.', '-' and a port", SHOWN, name);
    return 0;
}

static int check_tag(const struct parts *p, const char *name, struct err *err)
{
    bool good = p->tag_n <= TAG_MAX + 1 && p->tag_n != 1;
    for (size_t i = 1; i < p->tag_n; i++)
        good = good && (isalnum((unsigned char)p->tag[i]) || p->tag[i] == '_' || (i > 1 && strchr(".-", p->tag[i])));
    return good ? 0 : err_set(err, ERR_USAGE, "\"%.*s\" is not the name of an image: a tag has 1 to %d letters, digits, "
                                              "'_', '.' and '-'", SHOWN, name, TAG_MAX);
}

static int check_digest(const struct parts *p, const char *name, struct err *err)
{
    const size_t hex = 64, begin = strlen("@sha256:");
    if (!p->digest_n || (strncmp(p->digest, "@sha256:", begin) == 0 && p->digest_n == begin + hex &&
                         strspn(p->digest + begin, "0123456789abcdef") == hex))
        return 0;
    return err_set(err, ERR_USAGE,
                   "\"%.*s\" is not the name of an image: a digest is sha256: and 64 hexadecimal digits", SHOWN, name);
}

int container_image_check(const char *image, struct err *err)
{
    const char *name = container_image_short(image);
    const char *scheme = strstr(name, "://");
    if (container_image_is_file(image))
        return strchr(image, ',') || strchr(image, ':')
                   ? err_set(err, ERR_USAGE, "the path of an image may not contain ',' or ':'") : 0;
    if (scheme)
        return err_set(err, ERR_USAGE, "\"%.*s\" is not the name of an image: the only prefix that is allowed is "
                       "docker://; for a file, write its path", SHOWN, image);
    if (strlen(name) > NAME_MAX_CHARS)
        return err_set(err, ERR_USAGE, "the name of an image has at most %d characters", NAME_MAX_CHARS);
    const struct parts p = split(name);
    if (check_registry(&p, name, err) < 0 || check_path(&p, name, err) < 0 || check_tag(&p, name, err) < 0)
        return -1;
    return check_digest(&p, name, err);
}

void container_image_full(char out[CONTAINER_IMAGE_NAME], const char *image)
{
    const struct parts p = split(container_image_short(image));
    const bool library = !p.registry_n && !memchr(p.path, '/', p.path_n);
    snprintf(out, CONTAINER_IMAGE_NAME, "%.*s%s%.*s%s%.*s", p.registry_n ? (int)p.registry_n : 10,
             p.registry_n ? p.registry : "docker.io/", library ? "library/" : "", (int)p.path_n, p.path,
             p.tag_n || p.digest_n ? "" : ":latest", (int)(p.tag_n + p.digest_n), p.tag);
}

void container_image_enroot(char out[CONTAINER_IMAGE_NAME], const char *image)
{
    char full[CONTAINER_IMAGE_NAME];
    container_image_full(full, image);
    const size_t n = strcspn(full, "/");
    const bool hub = strncmp(full, "docker.io/", 10) == 0;
    snprintf(out, CONTAINER_IMAGE_NAME, DOCKER "%.*s%s%s", hub ? 0 : (int)n, full, hub ? "" : "#", full + n + 1);
}

void container_image_file_name(char out[CONTAINER_IMAGE_NAME], const char *image)
{
    container_image_full(out, image);
    for (char *p = out; *p; p++)
        *p = *p == '/' ? '+' : *p == ':' ? ',' : *p == '@' ? '=' : *p;
}
