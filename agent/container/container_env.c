/* SPDX-License-Identifier: Apache-2.0 */
/* container_env.c - see container_env.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/container/container_env.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Of the node; a name that ends in '*' stands for all that begin so.  `tool`: runtimes use it. */
static const struct {
    const char *name;
    bool tool;
} nodes[] = {
    {"PATH", true}, {"HOME", true}, {"TMPDIR", true}, {"XDG_*", true}, {"DBUS_*", true}, {"DOCKER_*", true},
    {"CONTAINER_*", true}, {"CONTAINERS_*", true}, {"PODMAN_*", true}, {"REGISTRY_AUTH_FILE", true},
    {"APPTAINER_*", true}, {"SINGULARITY_*", true}, {"APPTAINERENV_*", true}, {"SINGULARITYENV_*", true},
    {"ENROOT_*", true}, {"SSL_CERT_FILE", true}, {"SSL_CERT_DIR", true}, {"LD_LIBRARY_PATH", true},
    {"LD_PRELOAD", false}, {"LIBRARY_PATH", false}, {"CPATH", false}, {"PKG_CONFIG_PATH", false},
    {"PYTHONPATH", false}, {"PYTHONHOME", false}, {"PYTHONSTARTUP", false}, {"VIRTUAL_ENV*", false},
    {"CONDA_*", false}, {"_CE_*", false}, {"PYENV_*", false}, {"MAMBA_*", false}, {"CUDA_HOME", false},
    {"CUDA_PATH", false}, {"REQUESTS_CA_BUNDLE", false}, {"CURL_CA_BUNDLE", false}, {"LMOD_*", false},
    {"MODULE*", false}, {"LOADEDMODULES", false}, {"_LMFILES_*", false}, {"__LMOD*", false}, {"BASH_*", false},
    {"ENV", false}, {"SHELL", false}, {"PWD", false}, {"OLDPWD", false}, {"SHLVL", false}, {"_", false},
    {"HOSTNAME", false}, {"LANG", false}, {"LANGUAGE", false}, {"LC_*", false}, {"SSH_*", false},
    {"DISPLAY", false}, {"XAUTHORITY", false}, {"LS_COLORS", false}, {"LESS*", false}, {"MANPATH", false},
    {"INFOPATH", false}, {"EDITOR", false}, {"VISUAL", false}, {"PAGER", false}, {"MAIL", false},
    {"SYSTEMD_*", false}, {"INVOCATION_ID", false}, {"JOURNAL_STREAM", false}, {"NOTIFY_SOCKET", false},
    {"LISTEN_*", false}, {"TMUX*", false}, {"STY", false},
};

static bool matches(const char *entry, size_t n, const char *name)
{
    const size_t k = strlen(name);
    if (name[k - 1] == '*' && k > 1)
        return n >= k - 1 && strncmp(entry, name, k - 1) == 0;
    return n == k && strncmp(entry, name, k) == 0;
}

/* A function of bash has a name that no program can read. */
static bool is_name(const char *entry, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)entry[i]) && entry[i] != '_')
            return false;
    return n > 0 && !isdigit((unsigned char)entry[0]);
}

const char *container_env_find(char *const *env, const char *entry)
{
    const size_t n = strcspn(entry, "=");
    for (size_t i = 0; env && env[i]; i++)
        if (strncmp(env[i], entry, n) == 0 && env[i][n] == '=')
            return env[i];
    return NULL;
}

enum container_env_way container_env_way(const char *entry, char *const *node)
{
    const size_t n = strcspn(entry, "=");
    if (!is_name(entry, n))
        return CONTAINER_ENV_LEAVE;
    for (size_t i = 0; i < ARRAY_LEN(nodes); i++) {
        if (!matches(entry, n, nodes[i].name))
            continue;
        const char *own = container_env_find(node, entry);
        if (!own || strcmp(own, entry) != 0)
            return CONTAINER_ENV_SET;
        return nodes[i].tool ? CONTAINER_ENV_TOOL : CONTAINER_ENV_LEAVE;
    }
    return CONTAINER_ENV_PASS;
}
