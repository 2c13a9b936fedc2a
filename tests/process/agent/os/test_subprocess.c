/* SPDX-License-Identifier: Apache-2.0 */
/* test_subprocess.c - programs: descriptors, signals, failure to start, lines, limits; cleanup; capture; identity */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/os/identity.h"
#include "agent/os/process.h"
#include "agent/os/subprocess.h"
#include "agent/probe/oom.h"
#include "agent/ranks/capture.h"
#include "agent/ranks/cleanup_pass.h"
#include "engine/base/err.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[80], path[100];

static int up(void **state)
{
    (void)state;
    scratch_dir_create(dir, sizeof(dir), "child");
    snprintf(path, sizeof(path), "%s/x.log", dir);
    return 0;
}

static int down(void **state)
{
    (void)state;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    return rmdir(dir);
}

/* Start `sh -c script` with an output pipe; returns its pid. */
static pid_t shell(const char *script, char **env, int *out)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    const char *argv[] = {"/bin/sh", "-c", script, NULL};
    struct err err = {0};
    pid_t pid = subprocess_start(
        &(struct subprocess_spec){.argv = argv, .env = env, .out = fds[1], .err = SUBPROCESS_OUT, .session = true},
        &err);
    if (pid < 0)
        fail_msg("%s", err.text);
    close(fds[1]);
    *out = fds[0];
    return pid;
}

static void read_all(int fd, char *out, size_t size)
{
    size_t n = 0;
    for (ssize_t m; n < size - 1 && (m = read(fd, out + n, size - 1 - n)) > 0;)
        n += (size_t)m;
    out[n] = '\0';
    close(fd);
}

/* The first processor that we may run on, alone. */
static void a_child_is_bound_to_its_processors(void **state)
{
    char want[16], got[64];
    int fds[2], first = 0;
    cpu_set_t ours;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(ours), &ours), 0);
    while (!CPU_ISSET(first, &ours))
        first++;
    snprintf(want, sizeof(want), "%d", first);
    const char *argv[] = {"/bin/sh", "-c",
                          "sed -n 's/^Cpus_allowed_list:[^0-9]*//p' /proc/self/status", NULL};
    char *env[] = {NULL};
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = subprocess_start(
        &(struct subprocess_spec){.argv = argv, .env = env, .out = fds[1], .cpus = want}, NULL);
    assert_true(pid > 0);
    close(fds[1]);
    read_all(fds[0], got, sizeof(got));
    waitpid(pid, NULL, 0);
    got[strcspn(got, "\n")] = '\0';
    assert_string_equal(got, want);
}

static void a_child_has_what_it_should_and_no_more(void **state)
{
    (void)state;
    char *env[] = {(char[]){"A=1"}, NULL};
    int leak = open("/dev/null", O_RDONLY); /* not close-on-exec */
    int event[2], out;
    assert_int_equal(pipe2(event, O_CLOEXEC), 0);
    signal(SIGPIPE, SIG_IGN);
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    const char *argv[] = {
        "/bin/sh", "-c",
        "echo out; echo err >&2; echo event >&3; cat; ls /proc/self/fd | tr '\\n' ' ';"
        "grep SigIgn /proc/self/status; echo $A",
        NULL};
    struct err err = {0};
    pid_t pid = subprocess_start(&(struct subprocess_spec){.argv = argv,
                                                           .env = env,
                                                           .out = fds[1],
                                                           .err = SUBPROCESS_OUT,
                                                           .cwd = dir,
                                                           .extra = {event[1]},
                                                           .n_extra = 1},
                                 &err);
    assert_true(pid > 0);
    close(fds[1]);
    close(event[1]);
    out = fds[0];
    char text[2000], line[100];
    read_all(out, text, sizeof(text));
    read_all(event[0], line, sizeof(line));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_string_equal(line, "event\n");
    const char *head = "out\nerr\n0 1 2 3 4 SigIgn:\t"; /* 4: ls' own */
    assert_memory_equal(text, head, strlen(head));
    /* 32 and 33 belong to the C library and cannot be reset */
    assert_int_equal(strtoull(text + strlen(head), NULL, 16) & 0x7fffffff, 0);
    assert_non_null(strstr(text, "1\n"));
    signal(SIGPIPE, SIG_DFL);
    close(leak);
}

static void failures_to_start_are_sentences(void **state)
{
    (void)state;
    char *env[] = {NULL};
    const char *argv[] = {"/nonexistent/x", NULL};
    struct err err = {0};
    assert_int_equal(subprocess_start(&(struct subprocess_spec){.argv = argv, .env = env}, &err), -1);
    assert_string_equal(err.text, "cannot execute '/nonexistent/x': No such file or directory");
    err = (struct err){0};
    argv[0] = "/bin/true";
    assert_int_equal(
        subprocess_start(&(struct subprocess_spec){.argv = argv, .env = env, .cwd = "/nonexistent"}, &err),
        -1);
    assert_non_null(strstr(err.text, "cannot change to the directory '/nonexistent'"));
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left */
    assert_int_equal(errno, ECHILD);
}

/* --- to its end, and on an event loop ------------------------------------------------------------ */

static void a_run_gives_output_and_exit_code(void **state)
{
    (void)state;
    struct buf out[2] = {{0}, {0}};
    struct err err = {0};
    const struct subprocess_spec s = {
        .argv = (const char *const[]){"sh", "-c", "echo $A$HOME; echo no >&2; exit 7", NULL},
        .set = (const char *const[]){"A=1", "HOME=2", NULL},
        .out = SUBPROCESS_PIPE,
        .err = SUBPROCESS_PIPE};
    signal(SIGCHLD, SIG_IGN); /* as a parent may have left it */
    assert_int_equal(subprocess_run(&s, out, -1, &err), 7);
    assert_string_equal(subprocess_text(&out[0]), "12\n");
    assert_string_equal(subprocess_text(&out[1]), "no\n");
    buf_fini(&out[0]);
    buf_fini(&out[1]);
    const struct subprocess_spec killed = {.argv = (const char *const[]){"sh", "-c", "kill -9 $$", NULL}};
    assert_int_equal(subprocess_run(&killed, NULL, -1, &err), SUBPROCESS_SIGNALLED + SIGKILL);
    const struct subprocess_spec silent = {.argv = (const char *const[]){"sleep", "600", NULL},
                                           .out = SUBPROCESS_PIPE};
    assert_int_equal(subprocess_run(&silent, out, 10, &err), -1);
    assert_string_equal(err.text, "sleep timed out after 0 s");
    buf_fini(&out[0]);

    /* One that never stops writing ends at its limit, and only its last words are kept. */
    err = (struct err){0};
    const struct subprocess_spec chatty = {.argv = (const char *const[]){"yes", NULL}, .out = SUBPROCESS_PIPE,
                                           .limit_ms = 200, .most = 1000};
    assert_int_equal(subprocess_run(&chatty, out, -1, &err), -1);
    assert_string_equal(err.text, "yes timed out after 0 s");
    assert_true(out[0].size >= 1000 && out[0].size <= 2000);
    buf_fini(&out[0]);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

struct seen {
    struct subprocess *p;
    char lines[200], said[80];
    int ends, code;
    bool timed_out;
};

static void on_line(void *arg, const char *text, size_t size)
{
    struct seen *seen = arg;
    char line[80];
    snprintf(line, sizeof(line), "[%.*s]", (int)size, text);
    strcat(seen->lines, line);
    if (strcmp(line, "[ask]") == 0)
        subprocess_tell(seen->p, "answer\nlast\n", 12);
    if (strcmp(line, "[stop]") == 0)
        subprocess_close(&seen->p, 0);
}

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct seen *seen = arg;
    seen->ends++;
    seen->code = e->code;
    seen->timed_out = e->timed_out;
    if (e->said >= 0)
        subprocess_last_line(seen->said, sizeof(seen->said), e->said, "it");
}

static void on_tick(uv_timer_t *tick)
{
    uv_close((uv_handle_t *)tick, NULL);
}

/* Runs a script on a loop of its own, until the loop has nothing to do. */
static struct seen watch(const char *script, int64_t limit_ms)
{
    struct seen seen = {.code = -9};
    struct err err = {0};
    uv_loop_t loop;
    uv_timer_t tick;
    const struct subprocess_spec s = {.argv = (const char *const[]){"sh", "-c", script, NULL},
                                      .in = SUBPROCESS_PIPE,
                                      .out = SUBPROCESS_PIPE,
                                      .err = SUBPROCESS_PIPE,
                                      .session = true};
    const struct subprocess_hooks hooks = {on_line, on_end, &seen};
    uv_loop_init(&loop);
    if (subprocess_open(&seen.p, &loop, &s, limit_ms, &hooks, &err) < 0)
        fail_msg("%s", err.text);
    uv_run(&loop, UV_RUN_DEFAULT);
    while (uv_loop_close(&loop) == UV_EBUSY) { /* a process that was let go and not yet reaped */
        uv_timer_init(&loop, &tick);
        uv_timer_start(&tick, on_tick, 1, 0);
        uv_run(&loop, UV_RUN_DEFAULT);
    }
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    return seen;
}

static void a_watched_program_talks_and_ends(void **state)
{
    (void)state;
    struct seen seen = watch("echo first; echo ask; read a; echo got $a; printf 'half'; "
                             "echo 'x\nit: broken' >&2; exit 3", 0);
    assert_string_equal(seen.lines, "[first][ask][got answer]");
    assert_string_equal(seen.said, "broken");
    assert_int_equal(seen.ends, 1);
    assert_int_equal(seen.code, 3);
    assert_false(seen.timed_out);
    seen = watch("kill -9 $$", 0);
    assert_int_equal(seen.code, SUBPROCESS_SIGNALLED + SIGKILL);
}

static void a_limit_ends_the_whole_group(void **state)
{
    (void)state;
    struct seen seen = watch("sleep 600 & echo $!; wait", 500);
    assert_int_equal(seen.ends, 1);
    assert_true(seen.timed_out);
    pid_t child = atoi(seen.lines + 1);
    while (process_state(child) != 0 && process_state(child) != 'Z') /* whether init reaps it or not */
        poll(NULL, 0, 5);
}

static void no_hook_is_called_after_close(void **state)
{
    (void)state;
    struct seen seen = watch("echo stop; echo more", 0);
    assert_string_equal(seen.lines, "[stop]");
    assert_int_equal(seen.ends, 0);
}

static void reap_all(void)
{
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
}

static void sweep_finds_those_who_hide(void **state)
{
    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    char nonce[64];
    snprintf(nonce, sizeof(nonce), "JOBCTL_NONCE=t%dx", (int)getpid());
    char *env[] = {nonce, (char[]){"JOBCTL_GENERATION=2"}, (char[]){"JOBCTL_RUN_DIR=/run/here"},
                   (char[]){"PATH=/usr/bin:/bin"}, NULL};
    int out;
    /* a plain background child, one in a session of its own, one that has cleared its environment
     * and left the session; then the leader itself ends */
    pid_t pid = shell("sleep 60 & setsid sleep 61 & (env -i setsid sleep 62 &)", env, &out);
    close(out);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    /* until all three have become what they will be */
    struct cleanup_pass all = {.nonce = nonce + 13, .adopted = true};
    char names[300] = "";
    for (int i = 0; i < 1000 && strcmp(names, "sleep sleep sleep ") != 0; i++) {
        char found[300];
        names[0] = '\0';
        cleanup_pass_run(&all, found, sizeof(found));
        for (char *p = found; (p = strchr(p, '(')); p++)
            snprintf(names + strlen(names), sizeof(names) - strlen(names), "%.*s ", (int)strcspn(p + 1, ")"), p + 1);
        poll(NULL, 0, 5);
    }
    assert_string_equal(names, "sleep sleep sleep ");

    char left[300];
    struct cleanup_pass look = {.nonce = nonce + 13, .generation = 1, .adopted = false};
    assert_int_equal(cleanup_pass_run(&look, left, sizeof(left)), 0); /* another generation */
    look.generation = 2;
    assert_int_equal(cleanup_pass_run(&look, left, sizeof(left)), 2); /* the marked ones */
    assert_non_null(strstr(left, "(sleep), "));
    look.run_dir = "/run/her";
    assert_int_equal(cleanup_pass_run(&look, NULL, 0), 0); /* of another node on this machine */
    look.run_dir = "/run/here";
    assert_int_equal(cleanup_pass_run(&look, NULL, 0), 2);
    look = (struct cleanup_pass){.nonce = nonce + 13, .generation = 1, .adopted = true};
    assert_int_equal(cleanup_pass_run(&look, NULL, 0), 1); /* only the one that hides */
    look.generation = 0;
    look.adopted = true;
    assert_int_equal(cleanup_pass_run(&look, NULL, 0), 3);
    look.signo = SIGKILL;
    assert_int_equal(cleanup_pass_run(&look, NULL, 0), 3);
    reap_all();
    assert_int_equal(cleanup_pass_run(&look, left, sizeof(left)), 0);
    assert_string_equal(left, "");
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static void sweep_leaves_what_another_has_marked(void **state)
{
    char *marks[] = {(char[]){CLEANUP_PASS_DAEMON}, (char[]){"JOBCTL_NONCE=of another job"}};
    (void)state;
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        char *env[] = {marks[i], (char[]){"PATH=/usr/bin:/bin"}, NULL};
        char left[300];
        int out;
        pid_t pid = shell("exec sleep 60", env, &out);
        close(out);
        struct cleanup_pass s = {.nonce = "mine", .adopted = true, .signo = SIGKILL};
        assert_int_equal(cleanup_pass_run(&s, left, sizeof(left)), 0);
        assert_string_equal(left, "");
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
}

static void capture_rotates_at_lines(void **state)
{
    (void)state;
    struct capture *c;
    char text[400] = "", old[104];
    assert_int_equal(capture_open(&c, path, 100, NULL), 0);
    for (int i = 0; i < 30; i++) {
        snprintf(text, sizeof(text), "line %02d of thirty\nhalf", i);
        capture_write(c, text, strlen(text) - 4);
        capture_write(c, "h", 1);
        capture_write(c, "alf\n", 4);
    }
    capture_write(c, "the last, unfinished", 20);
    snprintf(old, sizeof(old), "%s.1", path);
    struct stat st;
    assert_int_equal(stat(old, &st), 0);
    assert_true(st.st_size > 50 && st.st_size <= 100);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size <= 120);
    read_all(open(path, O_RDONLY), text, sizeof(text));
    assert_non_null(strstr(text, "half\nthe last, unfinished"));
    assert_true(strncmp(text, "line ", 5) == 0 || strncmp(text, "half\n", 5) == 0);
    assert_non_null(strstr(capture_tail(c), "line 00 of thirty\nhalf\n"));
    capture_close(c);
    assert_int_equal(capture_open(&c, path, 1000, NULL), 0);
    capture_write(c, "unfinished", 10);
    capture_mark(c, "generation 2, resumed at step 17");
    assert_string_equal(capture_tail(c), "");
    capture_write(c, "new\n", 4);
    assert_string_equal(capture_tail(c), "new\n");
    read_all(open(path, O_RDONLY), text, sizeof(text));
    assert_non_null(strstr(text, "unfinished\n--- generation 2, resumed at step 17 ---\nnew\n"));
    capture_close(c);
}

static void the_tail_is_bounded_and_begins_with_a_line(void **state)
{
    (void)state;
    struct capture *c;
    assert_int_equal(capture_open(&c, path, 1 << 20, NULL), 0);
    char line[64];
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(line, sizeof(line), "this is line number %d\n", i);
        capture_write(c, line, (size_t)n);
    }
    const char *tail = capture_tail(c);
    assert_true(strlen(tail) <= CAPTURE_TAIL && strlen(tail) > CAPTURE_TAIL - 30);
    assert_true(strncmp(tail, "this is line number 4", 21) == 0);
    assert_non_null(strstr(tail, "number 4999\n"));
    capture_close(c);
}

static void an_identity_names_one_process(void **state)
{
    (void)state;
    struct identity id = {.job = 7, .attempt = 2, .incarnation = 1, .nonce = "ab", .version = "1"};
    struct identity got;
    struct err err = {0};
    assert_int_equal(identity_read(&got, dir, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(identity_self(&id, NULL), 0);
    assert_int_equal(identity_write(&id, dir, NULL), 0);
    assert_int_equal(identity_read(&got, dir, NULL), 0);
    assert_int_equal(got.pid, getpid());
    assert_int_equal(got.job, 7);
    assert_string_equal(got.nonce, "ab");
    assert_true(identity_alive(&got));
    got.start_time++;
    assert_false(identity_alive(&got));
    got = id;
    got.boot_id[0] ^= 1;
    assert_false(identity_alive(&got));
    char file[100];
    snprintf(file, sizeof(file), "%s/agent.json", dir);
    FILE *f = fopen(file, "w");
    fputs("{\"pid\":1}", f);
    fclose(f);
    assert_int_equal(identity_read(&got, dir, &err), -1);
    assert_true(oom_kills() >= -1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_child_has_what_it_should_and_no_more),
        TEST(a_child_is_bound_to_its_processors),
        TEST(failures_to_start_are_sentences),
        TEST(a_run_gives_output_and_exit_code),
        TEST(a_watched_program_talks_and_ends),
        TEST(a_limit_ends_the_whole_group),
        TEST(no_hook_is_called_after_close),
        TEST(sweep_finds_those_who_hide),
        TEST(sweep_leaves_what_another_has_marked),
        TEST(capture_rotates_at_lines),
        TEST(the_tail_is_bounded_and_begins_with_a_line),
        TEST(an_identity_names_one_process),
    };
    return cmocka_run_group_tests_name("subprocess", tests, NULL, NULL);
}
