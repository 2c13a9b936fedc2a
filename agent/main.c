/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - jobctl-agent: runs one attempt of a job on one node; a table of subcommands
 *
 * Each subcommand reads its own options, does one thing, and exits with the code of its error
 * (engine/base/err.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/attempt/attach.h"
#include "agent/attempt/attempt.h"
#include "agent/code/code_receive.h"
#include "agent/container/container_sweep.h"
#include "agent/doctor/doctor.h"
#include "agent/doctor/doctor_query.h"
#include "agent/mirror/mirror_run.h"
#include "agent/monitor/flight_print.h"
#include "agent/monitor/inspect.h"
#include "agent/os/descriptors.h"
#include "agent/os/identity.h"
#include "agent/os/lock_bundle.h"
#include "agent/os/log.h"
#include "agent/os/run_dir.h"
#include "agent/plan/gpu_selftest_child.h"
#include "agent/plan/plan.h"
#include "agent/plan/probe_cache.h"
#include "agent/probe/gpu_events.h"
#include "agent/probe/gpu_load.h"
#include "agent/probe/probe.h"
#include "agent/ranks/cleanup_pass.h"
#include "agent/ranks/control_group.h"
#include "agent/ranks/guardian.h"
#include "agent/wire/file_channel.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/contract/install.h"
#include "engine/base/json_memory.h"
#include "engine/base/roff.h"
#include "engine/base/safe_open.h"

/* --- run ------------------------------------------------------------------------------- */

static int parse_number(const char *text, const char *option, int64_t *out, struct err *err)
{
    char *end;
    errno = 0;
    long long v = text ? strtoll(text, &end, 10) : -1;
    if (!text || !*text || *end || errno || v < 0)
        return err_set(err, ERR_USAGE, "%s needs a non-negative number", option);
    *out = v;
    return 0;
}

/* jobctl-train is installed next to this program. */
static int find_train(char *out, size_t size, struct err *err)
{
    return install_path(out, size, "jobctl-train")
               ? 0
               : err_set(err, ERR_SYSTEM, "cannot find the path of this program");
}

/* stdin from /dev/null, output to agent.log. */
static int redirect(const char *run_dir, struct err *err)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof(path), "%s/" RUN_DIR_LOG, run_dir) >= sizeof(path))
        return err_set(err, ERR_USAGE, "the run directory's path is too long");
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = safe_open(path, O_WRONLY | O_CREAT | O_APPEND, err);
    if (log < 0)
        return -1;
    if (null < 0 || dup2(null, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
        return err_set(err, ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    close(null);
    close(log);
    return 0;
}

/* In the parent: waits for the detached child's "ready\n" or error message. Never returns. */
static void await_child(pid_t pid, int fd)
{
    char text[600];
    size_t n = 0;
    for (ssize_t m; n < sizeof(text) - 1 && (m = read(fd, text + n, sizeof(text) - 1 - n)) != 0;) {
        if (m > 0)
            n += (size_t)m;
        else if (errno != EINTR)
            break;
        if (n == 6 && memcmp(text, "ready\n", 6) == 0)
            exit(0);
    }
    text[n] = '\0';
    int status = 0;
    waitpid(pid, &status, 0);
    fprintf(stderr, "jobctl-agent: %s\n", n ? text : "the agent ended before it was ready");
    exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status)
                                                  : err_exit_code(ERR_SYSTEM));
}

/* The caller gets its prompt back once the agent listens; the child has its own session. */
static int detach(const char *run_dir, int *ready_fd, struct err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_set(err, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        return err_set(err, ERR_SYSTEM, "cannot start the agent: %s", strerror(errno));
    if (pid > 0) {
        close(fds[1]);
        await_child(pid, fds[0]);
    }
    close(fds[0]);
    *ready_fd = fds[1];
    setsid();
    return redirect(run_dir, err);
}

/* From here on this process is the agent, below its guardian. The lock is held until both have ended. */
static int lock_and_guard(struct attempt_options *o, bool session, struct err *err)
{
    static char tag[48];
    snprintf(tag, sizeof(tag), "%lld.%lld", (long long)o->job, (long long)o->attempt);
    const int lock = run_dir_lock(o->run_dir, err);
    if (lock >= 0 && lock_bundle_open(&o->bundle, err) < 0)
        return -1;
    const struct guardian_options g = {.run_dir = o->run_dir, .nonce = o->nonce, .tag = tag, .lock = lock,
                                       .hold = o->bundle.hold, .session = session};
    return lock < 0 ? -1 : guardian_start(&g, err);
}

static int fix_descriptors(int keep)
{
    /* The agent must not keep the caller's files open for the life of a job. */
    if (keep > 3)
        descriptors_close(3, (unsigned)keep - 1);
    descriptors_close(keep >= 3 ? (unsigned)keep + 1 : 3, ~0U);
    return 0;
}

static int cmd_run(int argc, char **argv, struct err *err)
{
    static const struct option options[] = {
        {"dir", required_argument, NULL, 'd'},     {"job", required_argument, NULL, 'j'},
        {"attempt", required_argument, NULL, 'a'}, {"ready-fd", required_argument, NULL, 'r'},
        {"foreground", no_argument, NULL, 'f'},    {"away", no_argument, NULL, 'w'},
        {NULL, 0, NULL, 0},
    };
    struct attempt_options o = {.job = -1, .attempt = -1, .ready_fd = -1, .bundle = LOCK_BUNDLE_NONE};
    bool foreground = false;
    int64_t ready = -1;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'd')
            o.run_dir = optarg;
        else if (c == 'j' && parse_number(optarg, "--job", &o.job, err) < 0)
            return -1;
        else if (c == 'a' && parse_number(optarg, "--attempt", &o.attempt, err) < 0)
            return -1;
        else if (c == 'r' && parse_number(optarg, "--ready-fd", &ready, err) < 0)
            return -1;
        else if (c == 'f')
            foreground = true;
        else if (c == 'w')
            o.away = true;
        else if (c == '?')
            return err_set(err, ERR_USAGE, "see `jobctl-agent help`");
    }
    char train[4096], dir[4096];
    o.nonce = getenv("JOBCTL_AGENT_NONCE");
    o.origin = getenv(IDENTITY_ORIGIN_ENV);
    if (!o.run_dir || o.job < 0 || o.attempt < 0 || optind != argc)
        return err_set(err, ERR_USAGE, "run needs --dir, --job and --attempt, and no arguments");
    if (!o.nonce || strlen(o.nonce) < 8 || strlen(o.nonce) > NONCE_CHARS ||
        strspn(o.nonce, "0123456789abcdef") != strlen(o.nonce))
        return err_set(err, ERR_USAGE, "JOBCTL_AGENT_NONCE must hold 8 to %d hexadecimal digits", NONCE_CHARS);
    if (!realpath(o.run_dir, dir))
        return err_set(err, ERR_SYSTEM, "the run directory '%s': %s", o.run_dir, strerror(errno));
    if (find_train(train, sizeof(train), err) < 0)
        return -1;
    o.run_dir = dir;
    o.train = train;
    o.ready_fd = (int)ready;
    fix_descriptors(o.ready_fd);
    int told = -1;
    if (!foreground && detach(dir, &told, err) < 0)
        return -1;
    if (told >= 0 && o.ready_fd >= 0)
        close(o.ready_fd); /* the parent's exit reports the same */
    if (told >= 0)
        o.ready_fd = told;
    umask(077);
    log_open(2, "agent", LOG_LEVEL_INFO);
    int rc = lock_and_guard(&o, !foreground, err) < 0 ? -1 : attempt_run(&o, err);
    if (rc < 0 && told >= 0) {
        log_error(NULL, "%s", err->text);
        if (write(told, err->text, strlen(err->text)) < 0)
            log_error(NULL, "cannot report the error: the reader closed the pipe");
    }
    return rc;
}

/* --- probe and plan -------------------------------------------------------------------- */

static int print_json(const json_t *v, struct err *err)
{
    if (json_dumpf(v, stdout, JSON_INDENT(2)) < 0 || puts("") < 0 || fflush(stdout) != 0)
        return err_set(err, ERR_SYSTEM, "cannot write: %s", strerror(errno));
    return 0;
}

static int cmd_probe(int argc, char **argv, struct err *err)
{
    if (argc > 2)
        return err_set(err, ERR_USAGE, "probe takes at most a directory");
    json_t *facts = probe_facts(argc == 2 ? argv[1] : ".", err);
    int rc = facts ? print_json(facts, err) : -1;
    json_decref(facts);
    return rc;
}

static json_t *load(const char *path, struct err *err)
{
    json_error_t why;
    json_t *v = strcmp(path, "-") == 0 ? json_loadf(stdin, 0, &why) : json_load_file(path, 0, &why);
    if (!v)
        err_set(err, ERR_USAGE, "'%s' is not JSON: %s (line %d)", path, why.text, why.line);
    return v;
}

/* A spec, also inside the answer of `jobctl submit --dry-run --json`. */
static json_t *load_spec(const char *path, struct err *err)
{
    json_t *answer = load(path, err), *spec = json_object_get(answer, "spec");
    if (!json_is_object(spec))
        return answer;
    json_incref(spec);
    json_decref(answer);
    return spec;
}

static int cmd_plan(int argc, char **argv, struct err *err)
{
    static const struct option options[] = {
        {"spec", required_argument, NULL, 's'},
        {"facts", required_argument, NULL, 'f'},
        {"state", required_argument, NULL, 'k'},
        {"json", no_argument, NULL, 'j'},
        {NULL, 0, NULL, 0},
    };
    const char *spec_path = NULL, *facts_path = NULL, *state = NULL;
    bool json = false;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's')
            spec_path = optarg;
        else if (c == 'f')
            facts_path = optarg;
        else if (c == 'k')
            state = optarg;
        else if (c == 'j')
            json = true;
        else
            return err_set(err, ERR_USAGE, "see `jobctl-agent help`");
    }
    if (!spec_path || optind != argc)
        return err_set(err, ERR_USAGE, "plan needs --spec FILE (a job's spec.json)");
    json_t *plan = NULL, *facts = NULL, *spec = load_spec(spec_path, err);
    int rc = -1;
    if (spec)
        facts = facts_path ? load(facts_path, err) : probe_facts(".", err);
    if (facts && state)
        probe_cache_recall(facts, state);
    if (facts && (rc = plan_make(&plan, facts, spec, err)) == 0) {
        json_object_set_new(plan, "gpu_memory_bytes", json_integer(plan_gpu_memory(plan, facts)));
        if (json)
            rc = print_json(plan, err);
        else
            plan_print(stdout, plan);
    }
    json_decref(plan);
    json_decref(facts);
    json_decref(spec);
    return rc;
}

/* Prints the checks of this node as JSON, for `jobctl doctor`. */
static int cmd_doctor(int argc, char **argv, struct err *err)
{
    static const struct option options[] = {
        {"spec", required_argument, NULL, 's'},
        {"facts", required_argument, NULL, 'f'},
        {"dir", required_argument, NULL, 'd'},
        {"state", required_argument, NULL, 'k'},
        {NULL, 0, NULL, 0},
    };
    const char *spec_path = NULL, *facts_path = NULL, *dir = ".", *state = NULL;
    char train[4096];
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 's')
            spec_path = optarg;
        else if (c == 'f')
            facts_path = optarg;
        else if (c == 'd')
            dir = optarg;
        else if (c == 'k')
            state = optarg;
        else
            return err_set(err, ERR_USAGE, "see `jobctl-agent help`");
    }
    if (optind != argc || find_train(train, sizeof(train), err) < 0)
        return err_set(err, ERR_USAGE, "doctor takes --spec FILE, --facts FILE, --dir DIR and --state "
                       "DIR only");
    json_t *spec = spec_path ? load_spec(spec_path, err) : NULL;
    if (spec_path && !spec)
        return -1;
    json_t *facts = facts_path ? load(facts_path, err) : probe_facts(dir, err);
    if (facts && !facts_path)
        doctor_try(facts, train, state);
    json_t *looked = facts ? doctor_look(train, spec, spec_path, dir) : NULL;
    json_t *answer = looked ? doctor_check(facts, spec, looked) : NULL;
    int rc = answer ? print_json(answer, err) : err_set(err, ERR_MEMORY, "no memory to check this node");
    json_decref(answer);
    json_decref(looked);
    json_decref(facts);
    json_decref(spec);
    return rc;
}

static int cmd_gpu_selftest(int argc, char **argv, struct err *err)
{
    char train[4096];
    (void)argv;
    if (argc != 1)
        return err_set(err, ERR_USAGE,
                       "gpu-selftest takes no arguments; it is started by an agent");
    return find_train(train, sizeof(train), err) < 0 ? -1 : gpu_selftest_child_run(train, err);
}

static int cmd_visit(int argc, char **argv, struct err *err)
{
    char train[4096];
    (void)argv;
    if (argc != 1)
        return err_set(err, ERR_USAGE,
                       "doctor-query takes no arguments; it is used by `jobctl doctor`");
    return find_train(train, sizeof(train), err) < 0 ? -1 : doctor_query(train, err);
}

/* --- flight and cleanup ----------------------------------------------------------------- */

static int cmd_flight(int argc, char **argv, struct err *err)
{
    if (argc != 2)
        return err_set(err, ERR_USAGE, "flight needs one file: RUN_DIR/rank<N>.flight");
    return flight_print(stdout, argv[1], err);
}

static int cmd_inspect(int argc, char **argv, struct err *err)
{
    int pids[64], n = 0;
    for (int i = 1; i < argc && n < 64; i++) {
        int64_t pid;
        if (parse_number(argv[i], "inspect", &pid, err) < 0)
            return -1;
        if (pid > 0)
            pids[n++] = (int)pid;
    }
    return inspect_print(stdout, pids, n, err);
}

static int cmd_gpu_events(int argc, char **argv, struct err *err)
{
    if (argc < 2)
        return err_set(err, ERR_USAGE, "gpu-events needs the UUIDs of GPUs");
    return gpu_events_print(stdout, argv + 1, argc - 1, err);
}

static int cmd_gpu_load(int argc, char **argv, struct err *err)
{
    (void)argv;
    if (argc != 1)
        return err_set(err, ERR_USAGE, "gpu-load takes no arguments");
    return gpu_load_print(stdout, err);
}

/* Kills the processes that the attempt of a dead agent left behind. */
static int cmd_cleanup(int argc, char **argv, struct err *err)
{
    struct identity id;
    char left[600] = "";
    if (argc != 2)
        return err_set(err, ERR_USAGE, "cleanup needs one run directory");
    if (identity_read(&id, argv[1], err) < 0)
        return -1;
    if (identity_alive(&id))
        return err_set(err, ERR_CONFLICT, "the agent of '%s' is alive (pid %lld): stop it instead",
                       argv[1], (long long)id.pid);
    char group[CONTROL_GROUP_PATH];
    control_group_find(group, argv[1]);
    struct cleanup_pass s = {.nonce = id.nonce, .group = group, .signo = SIGKILL};
    for (int i = 0; i < 200; i++) {
        int n = cleanup_pass_run(&s, left, sizeof(left));
        if (n == 0) {
            control_group_remove(argv[1]);
            if (container_sweep(argv[1], id.nonce, true, err) < 0)
                return -1;
            puts("clean");
            return 0;
        }
        if (n < 0)
            return err_set(err, ERR_SYSTEM, "cannot read /proc: %s", strerror(errno));
        usleep(10000);
    }
    return err_set(err, ERR_SYSTEM, "these processes survived SIGKILL: %s", left);
}

/* --- mirror ------------------------------------------------------------------------------ */

static int cmd_mirror(int argc, char **argv, struct err *err)
{
    if (argc != 2)
        return err_set(err, ERR_USAGE, "mirror needs one file: RUN_DIR/mirror.json");
    return mirror_run(argv[1], err);
}

/* --- on other machines ------------------------------------------------------------------- */

/* Files that cannot be made in the home of this user: a retry does not help. */
static int of_home(int rc, struct err *err)
{
    if (rc < 0 && (err->errnum == EACCES || err->errnum == EPERM || err->errnum == EROFS || err->errnum == ENOTDIR))
        err->code = ERR_USAGE;
    return rc;
}

static int cmd_attach(int argc, char **argv, struct err *err)
{
    (void)argv;
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (argc != 1)
        return err_set(err, ERR_USAGE, "attach takes no arguments; it is used by the controller");
    if (n < 0)
        return err_set(err, ERR_SYSTEM, "cannot find the path of this program: %s", strerror(errno));
    self[n] = '\0';
    umask(077);
    return of_home(attach_run(0, 1, self, err), err);
}

static int cmd_code(int argc, char **argv, struct err *err)
{
    if (argc != 2)
        return err_set(err, ERR_USAGE, "code needs the key of a job; it is used by the controller");
    umask(077);
    return of_home(code_receive(0, 1, argv[1], err), err);
}

static int cmd_digest(int argc, char **argv, struct err *err)
{
    char digest[DIGEST_TEXT];
    int64_t bytes;
    if (argc < 2)
        return err_set(err, ERR_USAGE, "digest needs files");
    for (int i = 1; i < argc; i++) {
        if (digest_file(digest, &bytes, argv[i], err) < 0)
            return -1;
        puts(digest);
    }
    return 0;
}

/* --- file channel ------------------------------------------------------------------------ */

enum { MAIL_PATIENCE_MS = 30000 };

static int cmd_file_channel(int argc, char **argv, struct err *err)
{
    if (argc != 2)
        return err_set(err, ERR_USAGE, "file-channel needs one run directory");
    umask(077);
    return file_channel_call(argv[1], 0, MAIL_PATIENCE_MS, err);
}

/* --- the table -------------------------------------------------------------------------- */

static int cmd_version(int argc, char **argv, struct err *err)
{
    (void)argc;
    (void)argv;
    (void)err;
    puts("jobctl-agent " JOBCTL_VERSION);
    return 0;
}

static int cmd_help(int argc, char **argv, struct err *err);

static const struct command {
    const char *name, *arguments, *help;
    int (*run)(int argc, char **argv, struct err *err);
} commands[] = {
    {"run", "--dir RUN_DIR --job N --attempt N [--foreground] [--away] [--ready-fd N]",
     "serve one attempt; the nonce is passed in JOBCTL_AGENT_NONCE (agent/attempt/session.h)", cmd_run},
    {"probe", "[DIR]", "print the facts about this node as JSON", cmd_probe},
    {"plan", "--spec FILE [--facts FILE] [--state DIR] [--json]",
     "print ranks, devices and environment for a job's spec.json, with reasons", cmd_plan},
    {"gpu-events", "UUID...",
     "print error events of these GPUs as they happen, one line of JSON each", cmd_gpu_events},
    {"gpu-load", "", "print load, memory and temperature of all GPUs every two seconds, one line of JSON each",
     cmd_gpu_load},
    {"doctor", "[--spec FILE] [--facts FILE] [--dir DIR] [--state DIR]",
     "check whether this node can run jobs, or the job of FILE; JSON output for `jobctl doctor`", cmd_doctor},
    {"gpu-selftest", "",
     "test the GPUs of a plan before its ranks start (agent/plan/gpu_selftest_child.h)",
     cmd_gpu_selftest},
    {"doctor-query", "",
     "answer the queries of `jobctl doctor` on several nodes (agent/doctor/doctor_query.h)",
     cmd_visit},
    {"flight", "FILE", "print the state of a rank from its flight page", cmd_flight},
    {"inspect", "PID...", "print native stacks of processes, NCCL RAS status, and the GPUs",
     cmd_inspect},
    {"mirror", "FILE", "copy a job's checkpoints to its mirror (agent/mirror/mirror_run.h)",
     cmd_mirror},
    {"file-channel", "RUN_DIR",
     "relay a controller's connection (a socket on standard input) to an agent that "
     "shares only this directory (agent/wire/file_channel.h)",
     cmd_file_channel},
    {"cleanup", "RUN_DIR", "kill every process that the attempt of a dead agent left behind",
     cmd_cleanup},
    {"attach", "", "connect a controller on another machine to its agent (agent/attempt/attach.h)",
     cmd_attach},
    {"code", "KEY", "take the code of a job from a controller on another machine (agent/code/code_receive.h)", cmd_code},
    {"digest", "FILE...", "print the XXH3 digest of each file", cmd_digest},
    {"version", "", "print the version", cmd_version},
    {"help", "", "print this list", cmd_help},
};

/* jobctl-agent(8), for `jobctl help man jobctl-agent`. */
static void print_manual(void)
{
    char usage[256];
    roff_page(stdout, "jobctl-agent", "8", JOBCTL_DATE, "jobctl " JOBCTL_VERSION,
              "run one attempt of a job on one node");
    roff_section(stdout, "SYNOPSIS");
    roff_text(stdout, "jobctl-agent COMMAND [options] [arguments]");
    roff_section(stdout, "DESCRIPTION");
    roff_text(stdout, "The controller starts one agent per node and attempt. The agent starts the ranks, watches them, "
              "recovers them, and survives the controller. These commands are for the controller, and for users who "
              "examine a node.");
    roff_section(stdout, "COMMANDS");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        snprintf(usage, sizeof(usage), "%s %s", commands[i].name, commands[i].arguments);
        if (commands[i].help)
            roff_term(stdout, usage, commands[i].help);
    }
    roff_section(stdout, "SEE ALSO");
    roff_reference(stdout, "jobctl", "1", 0);
    roff_reference(stdout, "jobctl-doctor", "1", 1);
}

static int cmd_help(int argc, char **argv, struct err *err)
{
    (void)err;
    if (argc > 1 && strcmp(argv[1], "man") == 0) {
        print_manual();
        return 0;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (commands[i].help)
            printf("jobctl-agent %s %s\n    %s\n", commands[i].name, commands[i].arguments, commands[i].help);
    return 0;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    const char *name = argc > 1 ? argv[1] : "help";
    int rc = -1;
    size_t i, n = sizeof(commands) / sizeof(commands[0]);
    json_memory_open("jobctl-agent", err_exit_code(ERR_MEMORY));
    for (i = 0; i < n && strcmp(commands[i].name, name) != 0; i++)
        ;
    if (i < n)
        rc = commands[i].run(argc > 1 ? argc - 1 : argc, argc > 1 ? argv + 1 : argv, &err);
    else
        err_set(&err, ERR_USAGE, "there is no command '%.40s': see `jobctl-agent help`", name);
    if (rc < 0)
        fprintf(stderr, "jobctl-agent: %s\n", err.text);
    if (rc < 0 && exit_code_of(&err) == EXIT_DISK_FULL)
        return EXIT_DISK_FULL;
    return rc < 0 ? err_exit_code(err.code) : 0;
}
