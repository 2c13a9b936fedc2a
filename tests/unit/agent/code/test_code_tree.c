/* SPDX-License-Identifier: Apache-2.0 */
/* test_code_tree.c - originals and copies of code, and what a host accepts from a controller */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/code/code_place.h"
#include "agent/code/code_receive.h"
#include "agent/code/code_tree.h"
#include "engine/base/err.h"
#include "engine/base/json_file.h"
#include "engine/base/scratch.h"

enum { PATH = 512 };

static char root[PATH];

static const char *at(const char *name)
{
    static char paths[8][4 * PATH];
    static int i;
    char *path = paths[i++ % 8];
    snprintf(path, 4 * PATH, "%s/%s", root, name);
    return path;
}

static void put(const char *name, const char *text, mode_t mode)
{
    FILE *f = fopen(at(name), "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    assert_int_equal(chmod(at(name), mode), 0);
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(lstat(at(name), &st), 0);
    return st.st_mode & 07777;
}

static void assert_text(const char *name, const char *text)
{
    char got[256] = "";
    FILE *f = fopen(at(name), "re");
    if (!f)
        fail_msg("%s is not there", name);
    assert_true(fread(got, 1, sizeof(got) - 1, f) < sizeof(got));
    fclose(f);
    assert_string_equal(got, text);
}

/* The files of `work`: run (a program), sub/a, sub/b -> a. */
static json_t *make_manifest(void)
{
    char run[DIGEST_TEXT], a[DIGEST_TEXT];
    int64_t bytes[2];
    json_t *m = code_manifest_create();
    assert_int_equal(digest_file(run, &bytes[0], at("work/run"), NULL), 0);
    assert_int_equal(digest_file(a, &bytes[1], at("work/sub/a"), NULL), 0);
    const struct code_entry entries[] = {{"run", CODE_PROGRAM, bytes[0], run},
                                         {"sub/a", CODE_FILE, bytes[1], a},
                                         {"sub/b", CODE_LINK, 0, "a"}};
    for (int i = 0; i < 3; i++)
        assert_int_equal(code_manifest_add(m, &entries[i]), 0);
    assert_int_equal(code_manifest_check(m, NULL), 0);
    return m;
}

static int up(void **state)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(root, sizeof(root), "%s/jobctl-code.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(root) || mkdir(at("work"), 0700) < 0 || mkdir(at("work/sub"), 0700) < 0)
        return -1;
    put("work/run", "echo run\n", 0755);
    put("work/sub/a", "a\n", 0644);
    *state = make_manifest();
    return 0;
}

static int down(void **state)
{
    json_decref(*state);
    return code_tree_remove(root, NULL);
}

static void make_original(const json_t *m, const char *name)
{
    char tree[2 * PATH], path[2 * PATH];
    snprintf(path, sizeof(path), "%s/" CODE_MANIFEST, name);
    snprintf(tree, sizeof(tree), "%s/" CODE_TREE, name);
    assert_int_equal(scratch_mkdirs(at(tree), NULL), 0);
    for (size_t i = 0; i < code_manifest_count(m); i++) {
        const struct code_entry e = code_manifest_at(m, i);
        assert_int_equal(code_tree_put(at("work"), at(tree), &e, CODE_ORIGINAL, NULL), 0);
    }
    assert_int_equal(json_file_save(m, at(path), 0), 0);
    assert_int_equal(code_tree_close(at(tree), NULL), 0);
}

static void an_original_is_read_only_and_its_copy_is_not(void **state)
{
    make_original(*state, "o");
    assert_int_equal(mode_of("o/tree"), 0500);
    assert_int_equal(mode_of("o/tree/sub"), 0500);
    assert_int_equal(mode_of("o/tree/run"), 0500);
    assert_int_equal(mode_of("o/tree/sub/a"), 0400);
    assert_true(code_tree_whole(at("o"), *state));
    assert_int_equal(code_tree_copy(at("o"), at("copy"), NULL), 0);
    assert_int_equal(mode_of("copy/sub"), 0700);
    assert_int_equal(mode_of("copy/run"), 0700);
    assert_int_equal(mode_of("copy/sub/a"), 0600);
    assert_text("copy/sub/b", "a\n");
    put("copy/out", "mine\n", 0600);
    assert_int_equal(code_tree_copy(at("o"), at("copy"), NULL), 0);     /* kept */
    assert_text("copy/out", "mine\n");
    assert_int_equal(code_tree_remove(at("o"), NULL), 0);
    assert_int_equal(access(at("o"), F_OK), -1);
    assert_int_equal(code_tree_remove(at("o"), NULL), 0);
}

static void damage_is_found_and_leaves_no_half_copy(void **state)
{
    struct err err = {.code = ERR_NONE};
    make_original(*state, "o");
    chmod(at("o/tree/sub/a"), 0600);
    put("o/tree/sub/a", "b\n", 0400);
    assert_true(code_tree_whole(at("o"), *state));      /* sizes only */
    assert_int_equal(code_tree_copy(at("o"), at("copy"), &err), -1);
    assert_int_equal(err.code, ERR_DATA);
    assert_non_null(strstr(err.text, "sub/a has changed since"));
    assert_int_equal(access(at("copy"), F_OK), -1);
    chmod(at("o/tree/sub/a"), 0600);
    put("o/tree/sub/a", "longer\n", 0400);
    assert_false(code_tree_whole(at("o"), *state));
}

static void the_copy_takes_the_place_of_the_workdir(void **state)
{
    struct err err = {.code = ERR_NONE};
    (void)state;
    json_t *spec = json_pack("{s:s}", "workdir", ""), *code = json_pack("{s:s, s:b, s:s}", "dir",
                                                                        "hosted/a-1/code/tree", "must", 0,
                                                                        "workdir", "/there");
    assert_int_equal(code_place_settle(spec, code, at("state/hosted/a-1/3"), &err), 0);
    assert_string_equal(json_string_value(json_object_get(spec, "workdir")), "/there");
    json_object_set_new(code, "must", json_true());
    assert_int_equal(code_place_settle(spec, code, at("state/hosted/a-1/3"), &err), -1);
    assert_int_equal(err.code, ERR_SYSTEM);
    assert_int_equal(scratch_mkdirs(at("state/hosted/a-1/code/tree"), NULL), 0);
    assert_int_equal(code_place_settle(spec, code, at("state/hosted/a-1/3"), NULL), 0);
    assert_string_equal(json_string_value(json_object_get(spec, "workdir")), at("state/hosted/a-1/code/tree"));
    assert_int_equal(code_place_settle(spec, NULL, at("x"), NULL), 0);
    json_decref(spec);
    json_decref(code);
}

/* ---- a host ---- */

struct host {
    int   fd;
    FILE *from;
    pid_t pid;
};

static struct host start_host(const char *key)
{
    int pair[2];
    struct host h;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    h.pid = fork();
    if (h.pid == 0) {
        struct err err = {.code = ERR_NONE};
        close(pair[0]);
        setenv("XDG_STATE_HOME", root, 1);
        umask(077);
        const int rc = code_receive(pair[1], pair[1], key, &err);
        if (rc < 0)
            dprintf(pair[1], "%s\n", err.text);
        _exit(rc < 0);
    }
    close(pair[1]);
    h.fd = pair[0];
    h.from = fdopen(dup(pair[0]), "re");
    assert_non_null(h.from);
    return h;
}

static void hear(struct host *h, const char *want)
{
    char line[1000] = "";
    assert_non_null(fgets(line, sizeof(line), h->from));
    if (!strstr(line, want))
        fail_msg("expected %s, heard %s", want, line);
}

static void offer(struct host *h, const json_t *m, const char *digest, json_t *here)
{
    char *list = json_dumps(m, JSON_COMPACT);
    json_t *v = json_pack("{s:s, s:s, s:b, s:o*, s:I}", "digest", digest, "workdir", at("work"), "must", 0, "here",
                          here, "manifest_bytes", (json_int_t)strlen(list));
    char *line = json_dumps(v, JSON_COMPACT);
    dprintf(h->fd, "%s\n%s", line, list);
    free(line);
    free(list);
    json_decref(v);
}

static int end(struct host *h)
{
    int status;
    shutdown(h->fd, SHUT_WR);
    assert_int_equal(waitpid(h->pid, &status, 0), h->pid);
    fclose(h->from);
    close(h->fd);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void a_host_gets_what_it_lacks(void **state)
{
    char digest[CODE_DIGEST], path[PATH], file[PATH];
    assert_int_equal(code_manifest_digest(digest, *state, NULL), 0);
    struct host h = start_host("a-1");
    hear(&h, "ready");
    offer(&h, *state, digest, NULL);
    hear(&h, "{\"missing\":[0,1]}");
    dprintf(h.fd, "echo run\n");                /* and the connection breaks */
    assert_int_equal(end(&h), 1);
    snprintf(path, sizeof(path), "jobctl/code/%s", digest);
    assert_int_equal(access(at(path), F_OK), -1);

    h = start_host("a-1");                      /* it goes on */
    hear(&h, "ready");
    offer(&h, *state, digest, NULL);
    hear(&h, "{\"missing\":[1]}");
    dprintf(h.fd, "a\n");
    hear(&h, "\"made\"");
    assert_int_equal(end(&h), 0);
    snprintf(file, sizeof(file), "jobctl/hosted/a-1/code/%s/sub/b", digest);
    assert_text(file, "a\n");
    assert_true(code_tree_whole(at(path), *state));

    h = start_host("a-1");                      /* the job has its copy */
    hear(&h, "ready");
    offer(&h, *state, digest, NULL);
    hear(&h, "\"kept\"");
    assert_int_equal(end(&h), 0);

    h = start_host("a-2");                      /* another job, on the directory itself */
    hear(&h, "ready");
    offer(&h, *state, digest, code_receive_look(at("work"), *state));
    hear(&h, "\"shared\"");
    assert_int_equal(end(&h), 0);
    assert_int_equal(access(at("jobctl/hosted/a-2"), F_OK), -1);

    put("work/sub/a", "other\n", 0644);         /* other code: of the rest there is an original */
    json_t *m = make_manifest();
    assert_int_equal(code_manifest_digest(digest, m, NULL), 0);
    h = start_host("a-3");
    hear(&h, "ready");
    offer(&h, m, digest, NULL);
    hear(&h, "{\"missing\":[1]}");
    dprintf(h.fd, "other\n");
    hear(&h, "\"made\"");
    assert_int_equal(end(&h), 0);
    snprintf(file, sizeof(file), "jobctl/hosted/a-3/code/%s/sub/a", digest);
    assert_text(file, "other\n");
    json_decref(m);
}

static void a_host_refuses_nonsense(void **state)
{
    char digest[CODE_DIGEST], file[PATH];
    assert_int_equal(code_manifest_digest(digest, *state, NULL), 0);
    static const char *const keys[] = {"../x", "", "k 1"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct host h = start_host(keys[i]);
        hear(&h, "ready");
        offer(&h, *state, digest, NULL);
        hear(&h, "is invalid");
        assert_int_equal(end(&h), 1);
    }
    struct host h = start_host("a-1");
    hear(&h, "ready");
    offer(&h, *state, "00112233445566778899aabbccddeeff", NULL);
    hear(&h, "does not match the announced digest");
    assert_int_equal(end(&h), 1);
    json_t *m = json_loads("{\"version\": 1, \"files\": [[\"../x\", \"link\", 0, \"a\"]]}", 0, NULL);
    h = start_host("a-1");
    hear(&h, "ready");
    offer(&h, m, digest, NULL);
    hear(&h, "invalid entry: ../x");
    assert_int_equal(end(&h), 1);
    h = start_host("a-1");                      /* contents that are others */
    hear(&h, "ready");
    offer(&h, *state, digest, NULL);
    hear(&h, "missing");
    dprintf(h.fd, "echo RUN\na\n");
    hear(&h, "run has changed since");
    assert_int_equal(end(&h), 1);
    snprintf(file, sizeof(file), "jobctl/hosted/a-1/code/%s", digest);
    assert_int_equal(access(at(file), F_OK), -1);
    json_decref(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_original_is_read_only_and_its_copy_is_not, up, down),
        cmocka_unit_test_setup_teardown(damage_is_found_and_leaves_no_half_copy, up, down),
        cmocka_unit_test_setup_teardown(the_copy_takes_the_place_of_the_workdir, up, down),
        cmocka_unit_test_setup_teardown(a_host_gets_what_it_lacks, up, down),
        cmocka_unit_test_setup_teardown(a_host_refuses_nonsense, up, down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
