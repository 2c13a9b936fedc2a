/* SPDX-License-Identifier: Apache-2.0 */
/* submit_env.c - see submit_env.h
 *
 * Pure: no clock, no I/O.
 */
#include "agent/core/submit_env.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "agent/core/redact.h"
#include "engine/base/err.h"

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct left {
    const char *name; /* "X_*": every name that begins with X_ */
    const char *why;
};

/* clang-format off */
static const struct left always[] = {
    {"JOBCTL_*",             "of jobctl itself"},
    {"SLURM_*",              "of the submitter's allocation; the job has its own or none"},
    {"SLURMD_*",             "of the submitter's allocation"},
    {"SBATCH_*",             "of the submitter's allocation"},
    {"SRUN_*",               "of the submitter's allocation"},
    {"PMI_*",                "of another launcher"},
    {"PMIX_*",               "of another launcher"},
    {"OMPI_*",               "of another launcher"},
    {"TORCHELASTIC_*",       "of another launcher"},
    {"SSH_*",                "of the login: it ends, and the agent's socket with it"},
    {"TMUX",                 "of the terminal"},
    {"TMUX_PANE",            "of the terminal"},
    {"STY",                  "of the terminal"},
    {"WINDOW",               "of the terminal"},
    {"WINDOWID",             "of the terminal"},
    {"COLUMNS",              "of the terminal: output would be folded to its width"},
    {"LINES",                "of the terminal"},
    {"DISPLAY",              "of the desktop session, which may end before the job"},
    {"WAYLAND_DISPLAY",      "of the desktop session"},
    {"XAUTHORITY",           "of the desktop session"},
    {"DBUS_SESSION_BUS_ADDRESS", "of the desktop session"},
    {"SESSION_MANAGER",      "of the desktop session"},
    {"XDG_SESSION_*",        "of the login session"},
    {"XDG_RUNTIME_DIR",      "of the login session: the directory is removed when it ends"},
    {"VSCODE_*",             "of an editor, whose sockets end with it"},
    {"GIT_ASKPASS",          "of an editor, whose sockets end with it"},
    {"JPY_*",                "of a notebook's kernel, which may end before the job"},
    {"INVOCATION_ID",        "of a systemd unit"},
    {"JOURNAL_STREAM",       "of a systemd unit"},
    {"NOTIFY_SOCKET",        "of a systemd unit"},
    {"LISTEN_*",             "of a systemd unit: descriptors that the job does not have"},
    {"WATCHDOG_*",           "of a systemd unit"},
    {"MAKEFLAGS",            "of a make: descriptors that the job does not have"},
    {"MFLAGS",               "of a make"},
    {"MAKELEVEL",            "of a make"},
    {"PWD",                  "of the shell: a job starts in its workdir"},
    {"OLDPWD",               "of the shell"},
    {"SHLVL",                "of the shell"},
    {"_",                    "of the shell: the last command"},
};

/* jobctl sets these for the ranks of the submitting job. */
static const struct left of_job[] = {
    {"CUDA_VISIBLE_DEVICES", "planned for the job that submits this one"},
    {"CUDA_DEVICE_ORDER",    "planned for the job that submits this one"},
    {"OMP_NUM_THREADS",      "planned for the job that submits this one"},
    {"NCCL_PROFILER_PLUGIN", "planned for the job that submits this one"},
    {"NCCL_RAS_ADDR",        "planned for the job that submits this one"},
    {"NCCL_DEBUG_FILE",      "planned for the job that submits this one"},
};

/* What a batch system, or a lease of part of the machine, sets on a node. */
static const char *const granted[] = {
    "SLURM_*", "SLURMD_*", "SRUN_*", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "HOSTNAME", "KRB5CCNAME",
};
/* clang-format on */

static const char *const places[] = {
    [SUBMIT_ENV_HERE] = "here", [SUBMIT_ENV_GRANTED] = "granted", [SUBMIT_ENV_HOST] = "host"};

/* `name` may be followed by a value. */
static bool matches(const char *pattern, const char *name)
{
    const size_t n = strlen(pattern), len = strcspn(name, "=");
    if (pattern[n - 1] == '*')
        return len >= n - 1 && strncmp(pattern, name, n - 1) == 0;
    return len == n && strncmp(pattern, name, n) == 0;
}

static const char *find_left(const struct left *rows, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (matches(rows[i].name, name))
            return rows[i].why;
    return NULL;
}

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), e = strlen(end);
    return n >= e && strcasecmp(name + n - e, end) == 0;
}

static bool has_word(const char *name, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = name; *p; p++)
        if (strncasecmp(p, word, n) == 0)
            return true;
    return false;
}

/* Settings of AWS that name a place or a limit; all other AWS_* count as credentials. */
static bool is_aws_setting(const char *name)
{
    static const char *const names[] = {
        "AWS_CA_BUNDLE", "AWS_CONFIG_FILE", "AWS_DEFAULT_OUTPUT", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED",
        "AWS_MAX_ATTEMPTS", "AWS_PAGER", "AWS_PROFILE", "AWS_REGION", "AWS_RETRY_MODE"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (matches(names[i], name))
            return true;
    return false;
}

static bool is_secret(const char *name)
{
    if (is_aws_setting(name))
        return false;
    return ends_with(name, "_KEY") || ends_with(name, "_TOKEN") || ends_with(name, "_SECRET") ||
           has_word(name, "PASSWORD") || strncmp(name, "AWS_", 4) == 0 || redact_is_telling(name, strlen(name));
}

enum submit_env_fate submit_env_fate(const char *name, bool in_job, const char **why)
{
    const char *reason = !name[0] || strchr(name, '=') ? "no name" : find_left(always, ARRAY_LEN(always), name);
    if (!reason && in_job)
        reason = find_left(of_job, ARRAY_LEN(of_job), name);
    if (why)
        *why = reason;
    if (reason)
        return SUBMIT_ENV_LEFT;
    return is_secret(name) ? SUBMIT_ENV_SECRET : SUBMIT_ENV_TAKEN;
}

bool submit_env_in_job(const json_t *environment)
{
    return json_object_get(environment, "JOBCTL_GENERATION") != NULL;
}

const char *submit_env_place_name(enum submit_env_place place)
{
    return places[place];
}

enum submit_env_place submit_env_place_of(const char *word)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (word && strcmp(places[i], word) == 0)
            return (enum submit_env_place)i;
    return SUBMIT_ENV_HOST;
}

bool submit_env_is_nodes(enum submit_env_place place, const char *name)
{
    if (place == SUBMIT_ENV_HOST || matches("JOBCTL_HOME", name) || matches("JOBCTL_MACHINE_DIR", name))
        return true;
    for (size_t i = 0; place == SUBMIT_ENV_GRANTED && i < ARRAY_LEN(granted); i++)
        if (matches(granted[i], name))
            return true;
    return false;
}

struct sizes {
    size_t all, largest;
    const char *name;
};

static void measure(struct sizes *s, const json_t *variables)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)variables, name, value) {
        const size_t n = strlen(name) + 1 + json_string_length(value) + 1;
        s->all += n;
        if (n > s->largest) {
            s->largest = n;
            s->name = name;
        }
    }
}

int submit_env_check(const json_t *environment, const json_t *secrets, struct err *err)
{
    struct sizes s = {.all = 0};
    measure(&s, environment);
    measure(&s, secrets);
    if (s.largest <= SUBMIT_ENV_ENTRY_MAX && s.all <= SUBMIT_ENV_MAX)
        return 0;
    return err_set(err, ERR_USAGE,
                   "the environment of this command is too large for a job: it has %zu bytes, %.80s alone has %zu, and "
                   "the limits are %d bytes in all and %d in one variable. Unset the variable, or write env_from: "
                   "clean", s.all, s.name, s.largest, (int)SUBMIT_ENV_MAX, (int)SUBMIT_ENV_ENTRY_MAX);
}
