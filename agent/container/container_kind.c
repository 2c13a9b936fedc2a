/* SPDX-License-Identifier: Apache-2.0 */
/* container_kind.c - see container_kind.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_kind.h"

#include <stddef.h>
#include <string.h>

#include "agent/container/container_image.h"
#include "engine/base/text_append.h"

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define HOST "--network=host", "--ipc=host", "--pid=host", "--uts=host", "--security-opt=label=disable", "--pids-limit=-1"

/* stop-timeout: of rm --force, which comes when its processes had their grace. */
const struct container_kind container_kinds[] = {
    {.name = "podman", .apart = true,
     .globals = WORDS("--root", "--runroot", "--runtime", "--runtime-flag", "--storage-driver", "--storage-opt",
                      "--cgroup-manager", "--conmon", "--log-level", "--tmpdir", "--hooks-dir", "--module", "--url",
                      "--connection", "--identity", "--imagestore", "--events-backend", "--network-config-dir",
                      "--network-cmd-path", "--volumepath", "--remote"),
     .verb = WORDS("run", "--rm", "--pull=never", "--stop-timeout=0", HOST),
     .version = WORDS("info", "--format", "{{.Version.Version}}"), /* opens its store */
     .mounts.word = "--mount=type=bind,source=", .mount_to = ",target=", .mount_ro = ",readonly",
     .gpus.word = "--device=nvidia.com/gpu=", .env.word = "--env=", .workdir = "--workdir=",
     .descriptors = "--preserve-fds=", .rootless = "--userns=keep-id", .image = ""},
    {.name = "docker", .apart = true, .daemon = true,
     .globals = WORDS("--config", "--context", "--host", "--log-level", "--tls", "--tlscacert", "--tlscert", "--tlskey",
                      "--tlsverify"),
     .verb = WORDS("run", "--rm", "--pull=never", HOST),
     .version = WORDS("version", "--format", "{{.Server.Version}}"), /* asks its daemon */
     .mounts.word = "--mount=type=bind,source=", .mount_to = ",target=", .mount_ro = ",readonly",
     .gpus = {.word = "--gpus=\"device=", .join = ",", .end = "\""}, /* in quotes, for docker's own reader of lists */
     .env.word = "--env=", .workdir = "--workdir=", .cpus = "--cpuset-cpus=", .rootless = "--user=0:0", .image = ""},
#define APPTAINER                                                                                                      \
    .file = ".sif", .globals = WORDS("--debug", "--quiet", "--silent", "--verbose", "--nocolor", "--config"),          \
    .verb = WORDS("exec"), .pull = WORDS("pull"), .version = WORDS("--version"), .mounts.word = "--bind=",                \
    .mount_to = ":", .mount_ro = ":ro", .gpu_flag = "--nv", .env.word = "--env=", .env_values = true,                   \
    .workdir = "--pwd=", .descriptors = "", .image = ""
    {.name = "apptainer", APPTAINER},
    {.name = "singularity", APPTAINER},
    {.name = "enroot", .program = "srun", .beside = "enroot", .file = ".sqsh", .apart = true,
     .verb = WORDS("--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--cpu-bind=none", "--unbuffered",
                   "--no-container-mount-home", "--no-container-entrypoint"),
     .pull = WORDS("enroot", "import", "--output"), .version = WORDS("version"),
     .mounts = {.word = "--container-mounts=", .join = ","}, .mount_to = ":", .mount_ro = ":ro",
     .gpus_variable = "NVIDIA_VISIBLE_DEVICES", /* read by its hook */
     .env = {.word = "--export=ALL,", .join = ","}, .env_values = true, .env_names = "--container-env=",
     .workdir = "--container-workdir=", .image = "--container-image="},
    {.name = NULL},
};

const struct container_kind *container_kind_of(const char *name)
{
    for (const struct container_kind *k = container_kinds; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return k;
    return NULL;
}

bool container_kind_reads(const struct container_kind *k, const char *image)
{
    return !container_image_is_file(image) ||
           (k->file && text_ends_with(image, ".sqsh") == (strcmp(k->file, ".sqsh") == 0));
}
