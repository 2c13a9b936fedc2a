/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c - see runner.h */
#include "agent/ranks/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/container/container_job.h"
#include "agent/container/container_process.h"
#include "agent/container/container_words.h"
#include "agent/core/agent_core.h"
#include "agent/os/shell_text.h"
#include "agent/os/subprocess.h"
#include "agent/printed/failure_reason.h"
#include "agent/ranks/capture.h"
#include "agent/ranks/control_group.h"
#include "agent/ranks/interpreter.h"
#include "agent/ranks/launch_env.h"
#include "agent/ranks/ranks.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"
#include "engine/base/json_make.h"
#include "engine/contract/progress.h"
#include "engine/base/safe_open.h"

enum { OUTPUT_END = 4096 }; /* bytes of a file with the output */

extern char **environ;

/* --- reading --------------------------------------------------------------------------- */

static void take_line(struct runner *r, const char *text, size_t size)
{
    json_t *line = json_loadb(text, size, 0, NULL);
    if (json_is_object(line))
        r->hooks.line(r->hooks.arg, r->rank, line);
    json_decref(line);
}

static void take_events(struct runner *r, const char *bytes, size_t size)
{
    if (buf_append(&r->lines, bytes, size) < 0)
        return;
    size_t at = 0;
    for (char *end; (end = memchr(r->lines.data + at, '\n', r->lines.size - at));) {
        size_t len = (size_t)(end - (r->lines.data + at));
        if (len <= PROGRESS_LINE)
            take_line(r, r->lines.data + at, len);
        at += len + 1;
    }
    buf_consume(&r->lines, at);
    if (r->lines.size > PROGRESS_LINE)
        buf_clear(&r->lines); /* longer than any valid line */
}

static const char missing[] = "ModuleNotFoundError: ";

static void take_output(struct runner *r, const char *bytes, size_t size)
{
    if (!r->python[0] && r->pid && memmem(bytes, size, missing, strlen(missing)))
        interpreter_look(r->python, sizeof(r->python), runner_root(r)); /* it lives for some milliseconds more */
    capture_write(r->capture, bytes, size);
    r->out_bytes += size;
    r->hooks.output(r->hooks.arg, r->rank, bytes, size);
}

/* Reads at most `most` bytes of what is available: 1 if more may come, 0 at the end. */
static int drain(struct runner *r, int fd, size_t most)
{
    char bytes[65536];
    for (size_t total = 0; total < most;) {
        ssize_t n = read(fd, bytes, sizeof(bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        if (n == 0)
            return 0;
        total += (size_t)n;
        if (fd == r->out_fd)
            take_output(r, bytes, (size_t)n);
        else
            take_events(r, bytes, (size_t)n);
    }
    return 1;
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
    (void)events;
    struct runner *r = handle->data;
    int fd = handle == &r->out_poll ? r->out_fd : r->event_fd;
    if (status < 0 || !drain(r, fd, 256 * 1024))
        uv_poll_stop(handle);
}

static void watch(struct runner *r, uv_loop_t *loop)
{
    uv_poll_init(loop, &r->out_poll, r->out_fd);
    uv_poll_init(loop, &r->event_poll, r->event_fd);
    r->out_poll.data = r->event_poll.data = r;
    uv_poll_start(&r->out_poll, UV_READABLE, on_readable);
    uv_poll_start(&r->event_poll, UV_READABLE, on_readable);
    r->watched = true;
}

/* --- starting ---------------------------------------------------------------------------*/

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* A pipe whose end in this process is non-blocking. */
static int make_pipe(int fds[2], int ours, struct err *err)
{
    if (pipe2(fds, O_CLOEXEC) < 0 || fcntl(fds[ours], F_SETFL, O_NONBLOCK) < 0)
        return err_set(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    return 0;
}

static void mark_generation(struct runner *r, const struct launch_env *e)
{
    char mark[120];
    if (e->generation < 2)
        return;
    if (e->snapshot_step > 0)
        snprintf(mark, sizeof(mark), "generation %d, from memory of step %lld", e->generation,
                 (long long)e->snapshot_step);
    else if (e->resume_step >= 0)
        snprintf(mark, sizeof(mark), "generation %d, from the checkpoint of step %lld",
                 e->generation, (long long)e->resume_step);
    else
        snprintf(mark, sizeof(mark), "generation %d", e->generation);
    capture_mark(r->capture, mark);
}

static int open_capture(struct runner *r, const struct runner_role *role, struct err *err)
{
    const struct launch_env *e = role->env;
    char path[4096];
    if (e->generation == 0 && e->node_rank > 0)
        snprintf(path, sizeof(path), "%s/setup.node%d.log", role->job->run_dir, e->node_rank);
    else if (e->generation == 0)
        snprintf(path, sizeof(path), "%s/setup.log", role->job->run_dir);
    else
        snprintf(path, sizeof(path), "%s/rank%d.log", role->job->run_dir, r->rank);
    if (capture_open(&r->capture, path, CAPTURE_BYTES, err) < 0)
        return -1;
    mark_generation(r, e);
    return 0;
}

/* A new page for each generation. */
static int open_flight(struct runner *r, const struct runner_role *role, struct err *err)
{
    const struct launch_env *e = role->env;
    char path[4096];
    if (e->generation == 0)
        return 0;
    flight_close(r->flight);
    r->flight = NULL;
    snprintf(path, sizeof(path), "%s/rank%d.flight", role->job->run_dir, r->rank);
    if (flight_create(path, (uint64_t)r->rank, (uint64_t)e->world_size, (uint64_t)e->generation, err) < 0)
        return -1;
    return flight_open(&r->flight, path, err);
}

/* The CPUs that the plan binds a rank to, or NULL. */
static const char *cpus_of(const struct launch_env *e, int rank)
{
    const json_t *row = e->generation ? launch_env_row(e, rank) : NULL;
    return json_string_value(json_object_get(row, "cpus"));
}

/* The command in a container, or the pull of its image: both go through the runtime. */
static int enter_container(struct runner *r, const struct runner_role *role, const char *const *argv, char *const *env,
                           struct container_words words[2], struct err *err)
{
    const struct launch_env *e = role->env;
    const struct container_job *job = role->job->container;
    char name[CONTAINER_NAME];
    container_job_name(job, name, e->generation, r->rank);
    const struct container_start s = {.name = name, .argv = argv, .env = env, .descriptors = 2,
                                      .cpus = cpus_of(e, r->rank),
                                      .node_env = e->base ? e->base : environ};
    if (e->pull)
        return container_job_pull(job, &s, &words[0], &words[1], err);
    if (container_job_is_apart(job))
        snprintf(r->container, sizeof(r->container), "%s", name);
    return container_job_command(job, &s, &words[0], &words[1], err);
}

/* An image that needs no pull: nothing to do is done. */
static const char *const nothing[] = {"/bin/true", NULL};

/* As the text of a shell, the last argument, says it. */
static void name_output(struct runner *r, const char *const *argv, const char *workdir)
{
    char file[300];
    int n = 0;
    while (argv[n])
        n++;
    shell_text_output(file, sizeof(file), n > 0 ? argv[n - 1] : "");
    if (file[0])
        snprintf(r->output, sizeof(r->output), "%.290s%s%s", file[0] == '/' || !workdir ? "" : workdir,
                 file[0] == '/' || !workdir ? "" : "/", file);
}

static int start_process(struct runner *r, const struct runner_role *role, struct err *err)
{
    const struct launch_env *e = role->env;
    const char *const *argv = e->generation ? role->job->argv : e->fetch ? role->job->fetch_argv
                                                                         : role->job->setup_argv;
    struct container_words words[2] = {{.word = NULL}, {.word = NULL}};
    int out[2] = {-1, -1}, event[2] = {-1, -1}, control[2] = {-1, -1}, rc = -1;
    char **env = NULL;
    if (open_capture(r, role, err) < 0 || open_flight(r, role, err) < 0 ||
        make_pipe(out, 0, err) < 0 || make_pipe(event, 0, err) < 0 ||
        make_pipe(control, 1, err) < 0)
        goto out;
    env = launch_env_make(e, r->rank, e->base ? e->base : environ, err);
    if (!env)
        goto out;
    if (!role->job->container || e->fetch) /* our own program, which no image has */
        interpreter_guess(r->guess, sizeof(r->guess), argv, env);
    else if (enter_container(r, role, argv, env, words, err) < 0)
        goto out;
    else
        argv = words[0].n ? (const char *const *)words[0].word : nothing;
    if (!role->job->container)
        name_output(r, argv, role->job->workdir);
    r->started_ns = uv_hrtime();
    struct subprocess_spec c = {.argv = argv,
                               .env = words[1].n ? words[1].word : env,
                               .cwd = role->job->workdir,
                               .cpus = cpus_of(e, r->rank),
                               .out = out[1],
                               .err = SUBPROCESS_OUT,
                               .extra = {event[1], control[0]},
                               .n_extra = 2,
                               .enter = role->group >= 0 ? control_group_join : NULL,
                               .enter_arg = role->group,
                               .session = true,
                               .tied = true};
    if (role->snapshot >= 0)
        c.extra[c.n_extra++] = role->snapshot;
    for (int i = 0; i < role->n_old; i++)
        c.extra[c.n_extra++] = role->old[i];
    if (role->job->hold > 0)
        c.extra[c.n_extra++] = role->job->hold;
    pid_t pid = subprocess_start(&c, err);
    if (pid < 0)
        goto out;
    r->pid = r->was = pid;
    rc = 0;
out:
    free(env);
    container_words_fini(&words[0]);
    container_words_fini(&words[1]);
    close_fd(&out[1]);
    close_fd(&event[1]);
    close_fd(&control[0]);
    r->out_fd = out[0];
    r->event_fd = event[0];
    r->control_fd = control[1];
    return rc;
}

int runner_start(struct runner **out, uv_loop_t *loop, const struct runner_role *role,
                 const struct runner_hooks *hooks, struct err *err)
{
    struct runner *r = *out = calloc(1, sizeof(*r));
    if (!r)
        return err_set(err, ERR_MEMORY, "no memory for rank %d", role->rank);
    *r = (struct runner){
        .hooks = *hooks, .rank = role->rank, .out_fd = -1, .event_fd = -1, .control_fd = -1, .inner_fd = -1};
    int rc = start_process(r, role, err);
    if (rc == 0)
        watch(r, loop);
    return rc;
}

/* --- in its container ------------------------------------------------------------------------ */

static bool has_ended(int pidfd)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

pid_t runner_root(struct runner *r)
{
    if (!r->container[0] || !r->pid)
        return r->pid;
    if (r->inner_fd < 0)
        r->inner = container_process_find(r->container, &r->inner_fd);
    return r->inner_fd >= 0 && !has_ended(r->inner_fd) ? r->inner : r->pid;
}

/* --- continuing in the next generation ------------------------------------------------------- */

/* Variables a new generation may change; null means unset. */
static json_t *changes(char *const *env)
{
    static const char *const names[] = {"JOBCTL_GENERATION", "JOBCTL_RESUME_STEP", "JOBCTL_SKIP_STEP",
                                        "JOBCTL_DEADLINE", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"};
    json_t *out = json_object();
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const size_t len = strlen(names[i]);
        json_t *value = json_null();
        for (size_t k = 0; env[k]; k++)
            if (strncmp(env[k], names[i], len) == 0 && env[k][len] == '=')
                value = json_text(env[k] + len + 1);
        json_object_set_new(out, names[i], value);
    }
    return out;
}

/* The path by which another process of the attempt opens a descriptor of the agent. */
static json_t *path_of(int fd)
{
    return json_text_f("/proc/%ld/fd/%d", (long)getpid(), fd);
}

static int say_rejoin(struct runner *r, const struct runner_role *role, struct err *err)
{
    char text[PROGRESS_LINE];
    char **env = launch_env_make(role->env, r->rank, role->env->base ? role->env->base : environ, err);
    if (!env)
        return -1;
    json_t *old = json_array();
    for (int i = 0; i < role->n_old; i++)
        json_array_append_new(old, path_of(role->old[i]));
    json_t *word = json_make("{s:s, s:o, s:o, s:o}", "cmd", "rejoin", "env", changes(env), "snapshot",
                             role->snapshot >= 0 ? path_of(role->snapshot) : json_null(), "old", old);
    size_t n = word ? json_dumpb(word, text, sizeof(text) - 1, JSON_COMPACT) : 0;
    json_decref(word);
    free(env);
    if (n == 0 || n >= sizeof(text))
        return err_set(err, ERR_MEMORY, "no memory for the rejoin message to rank %d", r->rank);
    text[n++] = '\n';
    if (write(r->control_fd, text, n) != (ssize_t)n)
        return err_set(err, ERR_SYSTEM, "cannot send the rejoin message to rank %d: %s", r->rank, strerror(errno));
    return 0;
}

int runner_join(struct runner *r, const struct runner_role *role, struct err *err)
{
    if (open_flight(r, role, err) < 0)
        return -1;
    mark_generation(r, role->env);
    r->started_ns = uv_hrtime();
    return say_rejoin(r, role, err);
}

/* --- exit ------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct runner *r = handle->data;
    if (--r->open == 0)
        free(r);
}

void runner_forget(struct runner *r)
{
    if (!r)
        return;
    close_fd(&r->control_fd);
    close_fd(&r->inner_fd);
    capture_close(r->capture);
    flight_close(r->flight);
    buf_fini(&r->lines);
    if (r->watched) {
        r->open = 2;
        uv_close((uv_handle_t *)&r->out_poll, on_closed);
        uv_close((uv_handle_t *)&r->event_poll, on_closed);
    }
    close_fd(&r->out_fd);
    close_fd(&r->event_fd);
    if (!r->watched)
        free(r);
}

void runner_phases(const struct runner *r, struct agent_exit *e)
{
    static struct flight_page page; /* 16 KiB; one thread */
    if (!r->flight)
        return;
    flight_read(r->flight, &page);
    if (!page.pid)
        return;
    const uint64_t now = uv_hrtime();
    e->init_ms = (int64_t)(flight_spent_ns(&page, PHASE_INIT, now) / 1000000);
    e->data_ms = (int64_t)(flight_spent_ns(&page, PHASE_DATA, now) / 1000000);
    e->checkpoint_ms = (int64_t)(flight_spent_ns(&page, PHASE_CHECKPOINT, now) / 1000000);
    /* The page starts late: the time until the process attached is not in it. */
    if (page.attached_ns > r->started_ns)
        e->init_ms += (int64_t)((page.attached_ns - r->started_ns) / 1000000);
}

/* Which Python lacks the module: the reason tells it (agent/printed/failure_reason.h). */
static void remark_interpreter(struct runner *r)
{
    char line[340];
    const char *python = r->python[0] ? r->python : r->guess;
    if (!python[0] || !strstr(capture_tail(r->capture), missing))
        return;
    snprintf(line, sizeof(line), FAILURE_INTERPRETER "%s", python);
    capture_remark(r->capture, line);
}

/* The end of the file that has its output, as if it had printed that, unless it printed anything else or did not write
 * into the file. */
static void remark_output(struct runner *r)
{
    char bytes[OUTPUT_END + 1];
    struct stat st;
    const char *tail = capture_tail(r->capture);
    if (!r->output[0] || tail[strspn(tail, " \t\r\n")])
        return;
    const int fd = safe_open_linked(r->output, O_RDONLY, NULL);
    const int64_t ran_s = (int64_t)((uv_hrtime() - r->started_ns) / 1000000000);
    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_mtime >= time(NULL) - ran_s - 1) {
        const off_t from = st.st_size > OUTPUT_END ? st.st_size - OUTPUT_END : 0;
        const ssize_t n = pread(fd, bytes, OUTPUT_END, from);
        bytes[n > 0 ? n : 0] = '\0';
        for (ssize_t i = 0; i < n; i++)
            bytes[i] = bytes[i] ? bytes[i] : '?';
        if (n > 0)
            capture_remark(r->capture, bytes);
    }
    if (fd >= 0)
        close(fd);
}

void runner_reaped(struct runner *r, int status, struct agent_exit *e)
{
    /* Reads remaining lines before the exit is reported; limited, as a grandchild may keep
     * writing. */
    drain(r, r->out_fd, 4 * 1024 * 1024);
    drain(r, r->event_fd, 1024 * 1024);
    remark_output(r);
    remark_interpreter(r);
    r->pid = 0;
    *e = (struct agent_exit){
        .rank = r->rank,
        .pid = r->was,
        .signalled = WIFSIGNALED(status),
        .signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        .after_ms = (int64_t)((uv_hrtime() - r->started_ns) / 1000000),
        .last_lines = capture_tail(r->capture),
    };
    runner_phases(r, e);
}

void runner_say(const struct runner *r, const char *line, size_t size)
{
    if (r->control_fd >= 0 && write(r->control_fd, line, size) < 0)
        return; /* ended, or not reading: its deadline expires or signals follow */
}
