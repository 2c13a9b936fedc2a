/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint.c - complete or absent: every damage is detected, the previous one is used */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/base/digest.h"
#include "engine/base/err.h"
#include "engine/contract/manifest.h"
#include "engine/model/layout.h"
#include "engine/optim/optim.h"
#include "engine/optim/state.h"
#include "engine/base/scratch.h"
#include "tests/unit/engine/contract/scratch_dir.h"

static char dir[256];
static struct layout *layout;
static struct shard *whole;
static struct optim *optim;
static float *weights, *grads;

static int make_state(void **state)
{
    (void)state;
    struct optim_config cfg = {
        .type = OPTIM_ADAMW, .beta = {0.9, 0.999}, .eps = {1e-8}, .ema = 0.9};
    scratch_dir_create(dir, sizeof(dir), "ckpt");
    if (layout_create(&layout, NULL) < 0 ||
        layout_add(layout, "a.weight", TENSOR_PARAM, 2, (int64_t[]){7, 5}, NULL) < 0 ||
        layout_add(layout, "a.bias", TENSOR_PARAM, 1, (int64_t[]){7}, NULL) < 0 ||
        layout_add(layout, "table", TENSOR_BUFFER, 2, (int64_t[]){3, 3}, NULL) < 0 ||
        shard_create(&whole, layout, 1, SHARD_EVEN, NULL) < 0 ||
        optim_create(&optim, &cfg, layout, &(struct optim_share){{whole, 0}, {whole, 0}}, NULL) < 0)
        return -1;
    weights = layout_alloc(layout);
    grads = layout_alloc(layout);
    return weights && grads ? 0 : -1;
}

static int free_state(void **state)
{
    (void)state;
    optim_destroy(optim);
    shard_destroy(whole);
    layout_destroy(layout);
    free(weights);
    free(grads);
    return scratch_remove(dir, NULL);
}

/* The state after `step` steps: every number is a function of it. */
static void go_to(int64_t step)
{
    for (int i = 0; i < layout_len(layout); i++)
        for (size_t k = 0; k < layout_at(layout, i)->count; k++)
            weights[layout_at(layout, i)->offset + k] = (float)(step * 1000 + i * 100) + (float)k;
    for (int i = 0; i < optim_state_len(optim); i++)
        for (int64_t k = 0; k < optim_state_at(optim, i)->count; k++)
            optim_state_at(optim, i)->data[k] = (float)(-step * 1000 - i * 100) - (float)k;
    optim_set_count(optim, step);
}

static bool is_at(int64_t step)
{
    for (int i = 0; i < layout_len(layout); i++)
        for (size_t k = 0; k < layout_at(layout, i)->count; k++)
            if (weights[layout_at(layout, i)->offset + k] != (float)(step * 1000 + i * 100) + (float)k)
                return false;
    for (int i = 0; i < optim_state_len(optim); i++)
        for (int64_t k = 0; k < optim_state_at(optim, i)->count; k++)
            if (optim_state_at(optim, i)->data[k] != (float)(-step * 1000 - i * 100) - (float)k)
                return false;
    return optim_count(optim) == step;
}

static const char *root(const char *name)
{
    static char path[2][400];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof(path[0]), "%s/%s", dir, name);
    return path[turn];
}

/* As one rank that has everything. */
static int write_whole(struct checkpoint_info *info, const char *where, const struct checkpoint_state *state,
                       bool *disk_full, struct err *err)
{
    const struct state_source source = {.layout = layout, .weights = weights, .optim = optim};
    struct checkpoint_writing w = {0};
    struct state s;
    assert_int_equal(state_make(&s, &source, err), 0);
    int rc = checkpoint_name(&w, where, state->step, err);
    if (rc == 0)
        rc = checkpoint_begin(&w, &s, err);
    if (rc == 0 && (rc = checkpoint_fill(&w, &s, err)) < 0)
        checkpoint_abandon(&w);
    if (rc == 0)
        rc = checkpoint_commit(info, &w, state, layout, err);
    *disk_full = w.disk_full;
    state_free(&s);
    return rc;
}

static struct checkpoint_info save(const char *where, int64_t step)
{
    struct checkpoint_info info;
    struct err err = {0};
    bool full;
    struct checkpoint_state s = {.step = step, .optim_count = step, .seed = 9, .loss = 0.5};
    snprintf(s.spec_digest, sizeof(s.spec_digest), "xxh3:spec");
    go_to(step);
    if (write_whole(&info, where, &s, &full, &err) < 0)
        fail_msg("%s", err.text);
    return info;
}

struct told {
    int  times;
    char path[CHECKPOINT_PATH], reason[512];
};

static void tell(void *arg, const char *path, const char *reason)
{
    struct told *t = arg;
    t->times++;
    snprintf(t->path, sizeof(t->path), "%s", path);
    snprintf(t->reason, sizeof(t->reason), "%s", reason);
}

static void a_saved_state_loads_again(void **state)
{
    (void)state;
    struct checkpoint_info info = save(root("plain"), 40), latest;
    struct checkpoint_state s;
    struct err err = {0};
    struct told told = {0};
    assert_int_equal(checkpoint_latest(&latest, root("plain"), tell, &told, &err), 1);
    assert_string_equal(latest.path, info.path);
    assert_string_equal(latest.digest, info.digest);
    assert_int_equal(latest.step, 40);
    assert_true(latest.bytes > 1000);
    go_to(1);
    assert_int_equal(checkpoint_load(&s, latest.path, layout, weights, optim, false, &err), 0);
    assert_true(is_at(40));
    assert_int_equal(s.step, 40);
    assert_int_equal(s.seed, 9);
    assert_true(s.loss == 0.5);
    assert_string_equal(s.spec_digest, "xxh3:spec");
    /* averages in place of weights, only if there are any */
    go_to(1);
    assert_int_equal(checkpoint_load(&s, latest.path, layout, weights, NULL, true, &err), 0);
    assert_true(weights[0] < 0);
    assert_true(weights[layout_at(layout, 2)->offset] == 40200);
    assert_int_equal(told.times, 0);
}

/* A rank that holds [from, to) of each tensor, as far as it reaches, reads just that. */
static void a_rank_reads_its_part(void **state)
{
    (void)state;
    struct checkpoint_info info = save(root("parts"), 3);
    const struct state_source source = {.layout = layout, .weights = weights, .optim = optim};
    struct checkpoint_state s;
    struct state all;
    struct err err = {0};
    assert_int_equal(state_make(&all, &source, &err), 0);
    float *was = layout_alloc(layout);
    memcpy(was, weights, layout_floats(layout) * sizeof(float));
    memset(weights, 0, layout_floats(layout) * sizeof(float));
    for (int i = 0; i < all.weights; i++) {
        struct state_part *p = &all.part[i];
        p->from = p->count / 3;
        p->to = p->count - p->count / 4;
        p->data += p->from;
    }
    if (checkpoint_load_parts(&s, info.path, layout, &all, false, &err) < 0)
        fail_msg("%s", err.text);
    for (int i = 0; i < all.weights; i++) {
        const struct tensor *t = layout_at(layout, i);
        for (size_t k = 0; k < t->count; k++) {
            bool in = k >= all.part[i].from && k < all.part[i].to;
            assert_true(weights[t->offset + k] == (in ? was[t->offset + k] : 0));
        }
    }
    free(was);
    state_free(&all);
}

static void another_model_is_refused_by_name(void **state)
{
    (void)state;
    struct checkpoint_info info = save(root("other"), 3);
    struct layout *l;
    struct checkpoint_state s;
    struct err err = {0};
    assert_int_equal(layout_create(&l, &err), 0);
    layout_add(l, "a.weight", TENSOR_PARAM, 2, (int64_t[]){5, 7}, &err);
    assert_int_equal(checkpoint_load(&s, info.path, l, weights, NULL, false, &err), -1);
    assert_int_equal(err.code, ERR_USAGE);
    assert_non_null(strstr(err.text, "a different model"));
    layout_destroy(l);
}

static const char *const members[] = {"model.safetensors", "optimizer.safetensors", "state.json",
                                      "manifest.json"};

static void path_of(char *path, size_t size, const char *where, const char *member)
{
    snprintf(path, size, "%s/%s", where, member);
}

/* Flips a bit at `at` permille of the file, or truncates it there, or removes it (at < 0). */
static void damage(const char *path, int at, bool flip)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    off_t where = st.st_size * at / 1000;
    char c;
    if (at < 0) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    int fd = open(path, O_RDWR);
    if (flip) {
        assert_int_equal(pread(fd, &c, 1, where), 1);
        c ^= (char)(1 << at % 8);
        assert_int_equal(pwrite(fd, &c, 1, where), 1);
    } else {
        assert_int_equal(ftruncate(fd, where), 0);
    }
    close(fd);
}

static void damage_is_detected_and_the_previous_one_used(void **state)
{
    (void)state;
    int cases = 0;
    for (size_t m = 0; m < sizeof(members) / sizeof(members[0]); m++)
        for (int at = -1; at < 1000; at += at < 0 ? 1 : 73)
            for (int flip = 0; flip < 2; flip++) {
                struct checkpoint_info latest, info;
                struct checkpoint_state s;
                struct told told = {0};
                struct err err = {0};
                char path[CHECKPOINT_PATH + 32];
                save(root("damage"), 17);
                info = save(root("damage"), 23);
                path_of(path, sizeof(path), info.path, members[m]);
                damage(path, at, flip);
                int found = checkpoint_latest(&latest, root("damage"), tell, &told, &err);
                /* a blank of manifest.json that became another blank does no harm */
                if (found == 1 && latest.step == 23 && m == 3 && flip && at >= 0) {
                    assert_int_equal(checkpoint_load(&s, latest.path, layout, weights, optim, false, &err), 0);
                    assert_true(is_at(23));
                } else {
                    if (found != 1 || latest.step != 17)
                        fail_msg("%s at %d, flip %d: found %d, step %lld", members[m], at, flip,
                                 found, (long long)latest.step);
                    assert_int_equal(told.times, 1);
                    assert_non_null(strstr(told.path, "quarantine/step-00000023."));
                    path_of(path, sizeof(path), told.path, "reason.txt");
                    assert_int_equal(access(path, F_OK), 0);
                    assert_int_equal(checkpoint_load(&s, latest.path, layout, weights, optim, false, &err), 0);
                    assert_true(is_at(17));
                    cases++;
                }
                assert_int_equal(scratch_remove(root("damage"), &err), 0);
            }
    assert_true(cases > 100);
}

static void an_empty_directory_has_no_checkpoint(void **state)
{
    (void)state;
    struct checkpoint_info latest;
    struct told told = {0};
    struct err err = {0};
    assert_int_equal(checkpoint_latest(&latest, root("none"), tell, &told, &err), 0);
    assert_int_equal(checkpoint_newest_step(root("none")), -1);
    mkdir(root("none"), 0700);
    assert_int_equal(checkpoint_latest(&latest, root("none"), tell, &told, &err), 0);
    char bad[500];
    snprintf(bad, sizeof(bad), "%s/step-00000005", root("none"));
    mkdir(bad, 0700);
    assert_int_equal(checkpoint_latest(&latest, root("none"), tell, &told, &err), 0);
    assert_int_equal(told.times, 1);
    assert_int_equal(checkpoint_latest(&latest, root("none"), tell, &told, &err), 0);
    assert_int_equal(told.times, 1);
}

static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.' || strncmp(e->d_name, ".tmp", 4) == 0;
    closedir(d);
    return n;
}

/* A limit on file size simulates a full disk. */
static void a_full_disk_leaves_nothing_behind(void **state)
{
    (void)state;
    save(root("full"), 1);
    for (rlim_t limit = 0; limit < 4000; limit += 333) {
        pid_t pid = fork();
        if (pid == 0) {
            struct rlimit rl = {limit, limit};
            struct checkpoint_info info;
            struct checkpoint_state s = {.step = 2};
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &rl);
            struct err err = {0};
            bool full;
            int rc = write_whole(&info, root("full"), &s, &full, &err);
            if (rc < 0 && limit == 0 && !strstr(err.text, "cannot write a checkpoint into "))
                _exit(3); /* the temporary name means nothing to a user */
            _exit(rc == 0 ? 1 : full ? 78 : 2);
        }
        int status;
        waitpid(pid, &status, 0);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 1)
            break; /* it fits now */
        assert_int_equal(WEXITSTATUS(status), 78);
        assert_int_equal(count_entries(root("full")), 1);
        assert_int_equal(checkpoint_newest_step(root("full")), 1);
    }
}

/* The manifest is written last: a part of it fits, and write() of that part is no error. */
static void a_disk_that_fills_within_the_manifest_is_full(void **state)
{
    (void)state;
    const struct checkpoint_info saved = save(root("within"), 3);
    pid_t pid = fork();
    if (pid == 0) {
        struct err err = {0};
        struct manifest m;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){20, 20});
        unlinkat(AT_FDCWD, root("within/step-00000003/" MANIFEST_FILE), 0);
        errno = 0;
        const int rc = manifest_write(&m, saved.path, 3, (const char *const[]){"state.json", NULL}, &err);
        _exit(rc == 0 ? 1 : errno != EFBIG ? 2 : strstr(err.text, strerror(EFBIG)) ? 0 : 3);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void killed_at_any_moment_leaves_the_old_or_the_new(void **state)
{
    (void)state;
    struct checkpoint_info latest;
    struct told told = {0};
    struct err err = {0};
    save(root("kill"), 1);
    for (int i = 0; i < 25; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int64_t step = 2;; step++)
                save(root("kill"), step);
        }
        usleep((useconds_t)(1000 + i * 700));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_int_equal(checkpoint_latest(&latest, root("kill"), tell, &told, &err), 1);
        struct checkpoint_state s;
        assert_int_equal(checkpoint_load(&s, latest.path, layout, weights, optim, false, &err), 0);
        assert_true(is_at(latest.step));
        assert_int_equal(told.times, 0);
        assert_int_equal(checkpoint_prune(root("kill"), 2, &err), 0);
        assert_in_range(count_entries(root("kill")), 1, 3); /* and quarantine */
        scratch_remove(root("kill"), &err);
        save(root("kill"), 1);
    }
}

static void pruning_keeps_the_newest_and_a_good_one(void **state)
{
    (void)state;
    struct err err = {0};
    struct checkpoint_info info = {0};
    for (int64_t step = 1; step <= 6; step++) {
        info = save(root("prune"), step);
        if (step == 2)
            assert_int_equal(checkpoint_mark_good(info.path, &err), 0);
        assert_int_equal(checkpoint_is_good(info.path), step == 2);
    }
    assert_int_equal(checkpoint_prune(root("prune"), 2, &err), 0);
    assert_int_equal(count_entries(root("prune")), 3); /* 6, 5, and 2, the newest good one */
    assert_int_equal(checkpoint_mark_good(info.path, &err), 0);
    assert_int_equal(checkpoint_prune(root("prune"), 2, &err), 0);
    assert_int_equal(count_entries(root("prune")), 2);
    assert_int_equal(checkpoint_newest_step(root("prune")), 6);
    /* writing the same step again moves the old one to quarantine */
    save(root("prune"), 6);
    assert_int_equal(count_entries(root("prune")), 3);
    struct checkpoint_info latest;
    struct told told = {0};
    assert_int_equal(checkpoint_latest(&latest, root("prune"), tell, &told, &err), 1);
    assert_int_equal(latest.step, 6);
}

/* A manifest with a correct digest, but malicious contents. */
static void a_manifest_names_files_of_its_own_directory(void **state)
{
    (void)state;
    static const char *const names[] = {"../model.safetensors", "/etc/passwd", ".hidden", "", "a/b"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[500], sum[DIGEST_TEXT];
        struct digest *d;
        struct manifest m;
        struct err err = {0};
        mkdir(root("astray"), 0700);
        json_t *inner = json_pack("{s:i, s:i, s:[{s:s, s:i, s:s}]}", "schema", 1, "step", 4, "files",
                                  "name", names[i], "bytes", 0, "digest", "xxh3:0");
        char *text = json_dumps(inner, JSON_COMPACT | JSON_SORT_KEYS);
        assert_int_equal(digest_create(&d, &err), 0);
        digest_add(d, text, strlen(text));
        digest_text(d, sum);
        digest_destroy(d);
        free(text);
        json_t *outer = json_pack("{s:o, s:s}", "manifest", inner, "digest", sum);
        snprintf(path, sizeof(path), "%s/manifest.json", root("astray"));
        assert_int_equal(json_dump_file(outer, path, 0), 0);
        json_decref(outer);
        assert_int_equal(manifest_read(&m, root("astray"), &err), -1);
        assert_int_equal(err.code, ERR_DATA);
        assert_non_null(strstr(err.text, "not a manifest that this version reads"));
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Another job has the lease of the directory: nothing is published, moved or removed, and no scrap is left. */
static void behind_the_fence_nothing_changes(void **state)
{
    (void)state;
    static const char *const mine = "{\"token\":1,\"pid\":7,\"start_time\":9,\"boot_id\":\"b\"}";
    static const char *const theirs = "{\"token\":2,\"pid\":8,\"start_time\":9,\"boot_id\":\"b\",\"name\":\"sana\","
                                      "\"job\":3,\"host\":\"gpu1\",\"home\":\"/srv\"}";
    char where[400], lease[420], first[CHECKPOINT_PATH], to[CHECKPOINT_PATH];
    struct checkpoint_info info;
    const struct checkpoint_state s = {.step = 2};
    const struct state_source source = {.layout = layout, .weights = weights, .optim = optim};
    struct checkpoint_writing w;
    struct state from;
    struct err err = {0};
    snprintf(where, sizeof(where), "%s", root("leased"));
    snprintf(lease, sizeof(lease), "%s/lease.json", where);
    assert_int_equal(scratch_mkdirs(where, NULL), 0);
    write_file(lease, mine);
    setenv("JOBCTL_LEASE", "1 7 9 b", 1);
    snprintf(first, sizeof(first), "%s", save(where, 1).path);
    save(where, 2);
    assert_int_equal(state_make(&from, &source, NULL), 0);
    assert_int_equal(checkpoint_name(&w, where, 2, NULL), 0);
    const int before = count_entries(where);
    assert_int_equal(checkpoint_begin(&w, &from, NULL), 0);
    assert_int_equal(checkpoint_fill(&w, &from, NULL), 0);
    write_file(lease, theirs); /* while it was being written, over one of the same step */
    assert_int_equal(checkpoint_commit(&info, &w, &s, layout, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_non_null(strstr(err.text, "taken over by job 3 (sana) on gpu1, home /srv"));
    assert_int_equal(checkpoint_quarantine(to, first, "why", NULL), -1);
    assert_int_equal(checkpoint_mark_good(first, NULL), -1);
    assert_int_equal(checkpoint_prune(where, 1, NULL), -1);
    assert_int_equal(count_entries(where), before);
    assert_false(checkpoint_is_good(first));
    assert_int_equal(checkpoint_begin(&w, &from, NULL), -1);
    assert_int_equal(count_entries(where), before);
    unsetenv("JOBCTL_LEASE");
    save(where, 3);
    state_free(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_saved_state_loads_again),
        cmocka_unit_test(a_rank_reads_its_part),
        cmocka_unit_test(another_model_is_refused_by_name),
        cmocka_unit_test(damage_is_detected_and_the_previous_one_used),
        cmocka_unit_test(an_empty_directory_has_no_checkpoint),
        cmocka_unit_test(a_full_disk_leaves_nothing_behind),
        cmocka_unit_test(a_disk_that_fills_within_the_manifest_is_full),
        cmocka_unit_test(killed_at_any_moment_leaves_the_old_or_the_new),
        cmocka_unit_test(a_manifest_names_files_of_its_own_directory),
        cmocka_unit_test(behind_the_fence_nothing_changes),
        cmocka_unit_test(pruning_keeps_the_newest_and_a_good_one),
    };
    return cmocka_run_group_tests(tests, make_state, free_state);
}
