/* SPDX-License-Identifier: Apache-2.0 */
/* spec_image.c - see spec_image.h */
#include "controller/spec/spec_image.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/container/container_image.h"
#include "agent/container/container_mounts.h"
#include "controller/base/yaml.h"
#include "controller/spec/spec_diagnostics.h"
#include "controller/spec/spec_paths.h"
#include "engine/base/err.h"
#include "engine/base/field.h"
#include "engine/base/json_text.h"

enum { OPTIONS_MOST = 60, MOUNTS_MOST = 100 };

struct image_check {
    json_t *image;
    const char *workdir;
    bool resolve, here; /* here: the job runs on this machine */
    struct spec_diagnostics *diagnostics;
};

/* `image: NAME` is short for `image: {image: NAME}`. */
static const char *name_key(const struct image_check *c)
{
    const struct yaml_node *given = c->diagnostics->root ? yaml_get(c->diagnostics->root, "image") : NULL;
    return given && given->kind == YAML_SCALAR ? "image" : "image.image";
}

/* Makes a path absolute; "" and false: it is none. */
static bool settle(const struct image_check *c, char *out, size_t size, const char *path, struct err *err)
{
    if (!c->resolve && path[0] != '/')
        err_set(err, ERR_USAGE, "expected an absolute path, not \"%.100s\"", path);
    else if (spec_path_absolute(out, size, c->workdir, path, err) == 0 && strlen(out) >= 1024)
        err_set(err, ERR_USAGE, "the path is longer than 1023 bytes");
    else if (err->code == ERR_NONE && c->resolve && c->here && access(out, F_OK) < 0)
        err_set(err, ERR_USAGE, "%.300s does not exist%s", out,
                path[0] == '/' ? "" : "; relative paths start at workdir");
    return err->code == ERR_NONE;
}

static void check_name(struct image_check *c)
{
    char path[PATH_MAX];
    struct err err = {.code = ERR_NONE};
    const char *name = field_text(c->image, "image");
    if (!name[0])
        err_set(&err, ERR_USAGE, "the name of the image is missing; for example image: docker.io/library/busybox");
    else if (container_image_check(name, &err) == 0 && container_image_is_file(name) &&
             settle(c, path, sizeof(path), name, &err))
        json_object_set_new(c->image, "image", json_text(path));
    if (err.code != ERR_NONE)
        spec_diagnostic_of(c->diagnostics, name_key(c), "%s: %s", name_key(c), err.text);
}

/* SOURCE is a path as others of the spec; TARGET is one in the image. */
static void check_mount(struct image_check *c, json_t *mounts, size_t i, struct container_mounts *parsed)
{
    char from[PATH_MAX], given[PATH_MAX], whole[2 * PATH_MAX];
    struct err err = {.code = ERR_NONE};
    const char *text = json_string_value(json_array_get(mounts, i));
    const char *rest = text + strcspn(text, ":");
    snprintf(given, sizeof(given), "%.*s", (int)(rest - text), text);
    if (rest == text)
        err_set(&err, ERR_USAGE, "expected SOURCE, SOURCE:TARGET or SOURCE:TARGET:ro, not \"%.100s\"", text);
    else if (settle(c, from, sizeof(from), given, &err)) {
        snprintf(whole, sizeof(whole), "%s%s", from, rest);
        if (container_mounts_parse(parsed, whole, &err) == 0)
            json_array_set_new(mounts, i, json_text(whole));
    }
    if (err.code != ERR_NONE)
        spec_diagnostic_of(c->diagnostics, "image.mounts", "image.mounts[%zu]: %s", i, err.text);
}

static void check_mounts(struct image_check *c)
{
    size_t i;
    const json_t *one;
    struct container_mounts parsed = {.n = 0};
    json_t *mounts = json_object_get(c->image, "mounts");
    if (json_array_size(mounts) > MOUNTS_MOST)
        spec_diagnostic_of(c->diagnostics, "image.mounts", "image.mounts: at most %d mounts", MOUNTS_MOST);
    json_array_foreach (mounts, i, one)
        if (i < MOUNTS_MOST)
            check_mount(c, mounts, i, &parsed);
    container_mounts_fini(&parsed);
}

/* Those on which jobctl depends. */
static const char *reserved(const char *option)
{
    static const char *const names[] = {"--name", "--label", "--detach", "-d", "--entrypoint", "--restart", "--rm",
                                        "--pid", "--workdir", "-w", "--user", "-u", "--sig-proxy", "--interactive",
                                        "--tty", "-i", "-t", "-it", "--pull", "--cidfile", "--container-image"};
    const size_t n = strcspn(option, "=");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strlen(names[i]) == n && strncmp(names[i], option, n) == 0)
            return names[i];
    return NULL;
}

static void check_options(struct image_check *c)
{
    size_t i;
    const json_t *one, *options = json_object_get(c->image, "options");
    if (json_array_size(options) > OPTIONS_MOST)
        spec_diagnostic_of(c->diagnostics, "image.options", "image.options: at most %d options", OPTIONS_MOST);
    json_array_foreach (options, i, one) {
        const char *text = json_string_value(one);
        if (text[0] != '-' || text[1] == '\0' || strcmp(text, "--") == 0)
            spec_diagnostic_of(c->diagnostics, "image.options",
                               "image.options[%zu]: expected an option such as --shm-size=8g, not \"%.60s\"; write an "
                               "option and its value as one text", i, text);
        else if (reserved(text))
            spec_diagnostic_of(c->diagnostics, "image.options", "image.options[%zu]: %s is set by jobctl; remove it", i,
                               reserved(text));
    }
}

void spec_image_check(json_t *spec, bool resolve, struct spec_diagnostics *diagnostics)
{
    struct image_check c = {.image = json_object_get(spec, "image"), .workdir = field_text(spec, "workdir"),
                            .resolve = resolve, .here = strcmp(field_text(spec, "launch"), "ssh") != 0,
                            .diagnostics = diagnostics};
    if (!json_is_object(c.image))
        return;
    if (json_is_object(json_object_get(spec, "train")))
        spec_diagnostic_of(diagnostics, "image", "image: only for run: jobs; the built-in engine of train: needs no "
                                                 "image, remove the key");
    if (spec_diagnostics_trust(diagnostics, "image.image|workdir"))
        check_name(&c);
    if (spec_diagnostics_trust(diagnostics, "image.mounts|workdir"))
        check_mounts(&c);
    if (spec_diagnostics_trust(diagnostics, "image.options"))
        check_options(&c);
}
