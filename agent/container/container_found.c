/* SPDX-License-Identifier: Apache-2.0 */
/* container_found.c - see container_found.h */
#include "agent/container/container_found.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/container/container_kind.h"
#include "engine/base/json_make.h"

#define SOCKET "/var/run/docker.sock"

static bool in_path(char out[PATH_MAX], const char *program)
{
    const char *path = getenv("PATH");
    struct stat st;
    for (const char *p = path ? path : "/usr/local/bin:/usr/bin:/bin"; *p; p += *p == ':') {
        const size_t n = strcspn(p, ":");
        snprintf(out, PATH_MAX, "%.*s/%s", (int)n, p, program);
        if (*p == '/' && stat(out, &st) == 0 && S_ISREG(st.st_mode) && access(out, X_OK) == 0)
            return true;
        p += n;
    }
    return false;
}

/* A file in one of the places of CDI descriptions that names NVIDIA. */
static bool has_cdi(void)
{
    static const char *const files[] = {"/etc/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml", "/etc/cdi/nvidia.json",
                                        "/var/run/cdi/nvidia.json", "/etc/cdi/nvidia-container-toolkit.json",
                                        "/var/run/cdi/nvidia-container-toolkit.json"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (access(files[i], R_OK) == 0)
            return true;
    return false;
}

/* The socket of docker's daemon; "" if it is at another place than a file. */
static const char *docker_socket(void)
{
    const char *host = getenv("DOCKER_HOST");
    if (!host || !host[0])
        return SOCKET;
    return strncmp(host, "unix://", 7) == 0 ? host + 7 : "";
}

/* Its socket is a file of the user, or in the user's directory for such files. */
static bool docker_is_rootless(const char *socket)
{
    return strncmp(socket, "/run/user/", 10) == 0 || strncmp(socket, "/var/run/user/", 14) == 0;
}

static const char *why_not_docker(const char *socket)
{
    if (!socket[0] || access(socket, R_OK | W_OK) == 0)
        return "";
    return access(socket, F_OK) == 0 ? "may not be used by this user (its group is docker)"
                                     : "is installed, but its daemon does not run";
}

static json_t *look_for(const struct container_kind *kind)
{
    char path[PATH_MAX], other[PATH_MAX];
    bool rootless = geteuid() != 0;
    const char *why = "";
    if (!in_path(path, kind->program ? kind->program : kind->name) || (kind->beside && !in_path(other, kind->beside)))
        return NULL;
    if (kind->beside && !getenv("SLURM_JOB_ID"))
        why = "runs only in an allocation of Slurm (launch: slurm)";
    if (kind->daemon) {
        why = why_not_docker(docker_socket());
        rootless = docker_is_rootless(docker_socket());
    }
    return json_make("{s:s, s:s, s:b, s:b, s:s}", "runtime", kind->name, "path", path, "rootless", rootless, "cdi",
                     has_cdi(), "why", why);
}

json_t *container_found(void)
{
    json_t *out = json_array();
    for (const struct container_kind *k = container_kinds; out && k->name; k++) {
        json_t *row = look_for(k);
        if (row)
            json_array_append_new(out, row);
    }
    return out;
}
