/* SPDX-License-Identifier: Apache-2.0 */
/* train_cmd_verify_resume.c - jobctl-train verify-resume: repeat the last steps with other ranks
 *
 * The steps from an earlier checkpoint of a run to its newest one are repeated, in a temporary
 * directory, with the given numbers of ranks, and the result is compared with the newest
 * checkpoint: digests, and the distance of the weights.  In a reproducible run the bits must be
 * equal; otherwise the distance must be that of rounding.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/cli/train_cmd.h"
#include "engine/base/err.h"
#include "engine/contract/exit_code.h"
#include "engine/base/json_file.h"
#include "engine/base/json_make.h"
#include "engine/contract/manifest.h"
#include "engine/files/safetensors.h"

enum { SIZES = 16, RANKS = 64 };
#define NEAR 1e-3 /* relative distance of weights that rounding may cause in some steps */

struct replay {
    const char *dir;             /* of the run's checkpoints */
    char        from[CHECKPOINT_PATH], to[CHECKPOINT_PATH]; /* "" = from the start */
    int64_t     first, last;     /* their steps */
    json_t     *job;
    char        left_out[512];   /* steps that the run skipped, in the format of JOBCTL_SKIP_STEP */
    bool        reproducible;    /* a reproducible run */
    bool        json;
    int         size[SIZES], sizes;
    json_t     *rows;
    bool        differs;
};

extern char **environ;

/* --- steps to repeat --------------------------------------------------------------------- */

static int parse_sizes(struct replay *r, const char *text, struct err *err)
{
    for (const char *p = text; r->sizes < SIZES;) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || n < 1 || n > RANKS || (*end && *end != ','))
            return err_set(err, ERR_USAGE, "--ranks %.60s: expected numbers from 1 to %d, as in 1,4", text, RANKS);
        r->size[r->sizes++] = (int)n;
        if (!*end)
            return 0;
        p = end + 1;
    }
    return err_set(err, ERR_USAGE, "--ranks: at most %d numbers", SIZES);
}

/* The newest intact checkpoint with a step of at most `most`; false if there is none. */
static bool find_checkpoint(char path[CHECKPOINT_PATH], int64_t *step, const char *dir, int64_t most)
{
    DIR *d = opendir(dir);
    *step = -1;
    for (struct dirent *e; d && (e = readdir(d));) {
        char at[CHECKPOINT_PATH];
        struct manifest m;
        long long n;
        int end = 0;
        if (sscanf(e->d_name, "step-%lld%n", &n, &end) != 1 || e->d_name[end] || n > most ||
            n <= *step ||
            snprintf(at, sizeof(at), "%s/%s", dir, e->d_name) >= (int)sizeof(at) ||
            manifest_verify(&m, at, NULL) < 0)
            continue;
        *step = n;
        memcpy(path, at, sizeof(at));
    }
    if (d)
        closedir(d);
    return *step >= 0;
}

static int find_steps(struct replay *r, int64_t steps, struct err *err)
{
    if (!find_checkpoint(r->to, &r->last, r->dir, INT64_MAX))
        return err_set(err, ERR_USAGE, "%s holds no intact checkpoint yet, so there is nothing to "
                                       "compare with", r->dir);
    if (!find_checkpoint(r->from, &r->first, r->dir, r->last - steps)) {
        r->from[0] = 0;
        r->first = 0;
    }
    json_t *notes = checkpoint_notes(r->to, err);
    if (!notes)
        return -1;
    const json_t *left_out = json_object_get(notes, "left_out");
    size_t used = 0;
    for (size_t i = 0; i < json_array_size(left_out) && used + 24 < sizeof(r->left_out); i++)
        used += (size_t)snprintf(r->left_out + used, sizeof(r->left_out) - used, "%s%lld", used ? "," : "",
                                 (long long)json_integer_value(json_array_get(left_out, i)));
    r->job = json_deep_copy(json_object_get(notes, "job"));
    r->reproducible = json_is_true(json_object_get(json_object_get(r->job, "train"), "reproducible"));
    json_decref(notes);
    return r->job ? 0 : err_set(err, ERR_MEMORY, "out of memory for a job spec");
}

/* The job, starting at the earlier checkpoint, with a single checkpoint at the end. */
static int write_spec(const struct replay *r, const char *path, struct err *err)
{
    json_object_set_new(r->job, "resume", json_text(r->from[0] ? r->from : "none"));
    json_object_set_new(r->job, "checkpoint",
                        json_make("{s:{s:I}, s:i}", "every", "steps", (json_int_t)1 << 40, "keep", 2));
    if (json_file_save(r->job, path, JSON_COMPACT) < 0)
        return err_set_errno(err, errno, "cannot write %s", path);
    return 0;
}

/* --- running them ------------------------------------------------------------------------ */

/* Never returns. */
static void become_rank(const struct replay *r, int rank, int size, const char *dir,
                        const char *spec, const char *until)
{
    char number[32];
    long threads = sysconf(_SC_NPROCESSORS_ONLN) / size;
    for (char **e = environ; *e;) {
        char name[64];
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
        if (strncmp(name, "JOBCTL_", 7) == 0 && unsetenv(name) == 0)
            e = environ;
        else
            e++;
    }
    snprintf(number, sizeof(number), "%d", rank);
    setenv("RANK", number, 1);
    snprintf(number, sizeof(number), "%d", size);
    setenv("WORLD_SIZE", number, 1);
    snprintf(number, sizeof(number), "%ld", threads > 0 ? threads : 1);
    setenv("OMP_NUM_THREADS", number, 1);
    setenv("JOBCTL_RUN_DIR", dir, 1);
    setenv("JOBCTL_CKPT_DIR", dir, 1);
    if (r->left_out[0])
        setenv("JOBCTL_SKIP_STEP", r->left_out, 1);
    char log[CHECKPOINT_PATH];
    snprintf(log, sizeof(log), "%s/rank.log", dir);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) {
        dup2(fd, 1);
        dup2(fd, 2);
    }
    execl("/proc/self/exe", "jobctl-train", "train", "--spec", spec, "--until", until, (char *)NULL);
    _exit(EXIT_BUG);
}

static int tell_log(const char *dir, int size, struct err *err)
{
    char path[CHECKPOINT_PATH], line[512], last[512] = "no message";
    snprintf(path, sizeof(path), "%s/rank.log", dir);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "jobctl-train: ", 14) == 0)
            snprintf(last, sizeof(last), "%.*s", (int)strcspn(line + 14, "\n"), line + 14);
    if (f)
        fclose(f);
    return err_set(err, ERR_SYSTEM, "%d rank%s could not run these steps: %s", size, size == 1 ? "" : "s", last);
}

/* `size` ranks, in `dir`, up to the last step. */
static int run_ranks(const struct replay *r, int size, const char *dir, struct err *err)
{
    char spec[CHECKPOINT_PATH], until[32];
    pid_t pid[RANKS];
    int bad = 0, status;
    if (snprintf(spec, sizeof(spec), "%s/spec.json", dir) >= (int)sizeof(spec))
        return err_set(err, ERR_USAGE, "the path is too long: %.200s", dir);
    if (write_spec(r, spec, err) < 0)
        return -1;
    snprintf(until, sizeof(until), "%lld", (long long)r->last);
    fflush(NULL);
    for (int i = 0; i < size; i++)
        if ((pid[i] = fork()) == 0)
            become_rank(r, i, size, dir, spec, until);
    for (int i = 0; i < size; i++)
        if (pid[i] < 0 || waitpid(pid[i], &status, 0) < 0 || !WIFEXITED(status) ||
            WEXITSTATUS(status) != 0)
            bad++;
    return bad ? tell_log(dir, size, err) : 0;
}

/* --- comparing --------------------------------------------------------------------------- */

/* Distance of the weights, relative to their norm. */
static int distance(double *out, const char *a, const char *b, struct err *err)
{
    struct st_file *f = NULL, *g = NULL;
    double square = 0, all = 0;
    int rc = st_open(&f, a, err) < 0 || st_open(&g, b, err) < 0 ? -1 : 0;
    for (int i = 0; rc == 0 && i < st_len(f); i++) {
        const struct st_tensor *x = st_at(f, i), *y = st_find(g, x->name);
        if (!y || y->bytes != x->bytes)
            rc = err_set(err, ERR_DATA, "%s and %s contain different models", a, b);
        for (size_t k = 0; rc == 0 && k < x->count; k++) {
            float p, q;
            memcpy(&p, (const char *)x->data + k * sizeof(p), sizeof(p));
            memcpy(&q, (const char *)y->data + k * sizeof(q), sizeof(q));
            square += ((double)p - (double)q) * ((double)p - (double)q);
            all += (double)p * (double)p;
        }
    }
    st_close(f);
    st_close(g);
    *out = all > 0 ? sqrt(square / all) : 0;
    return rc;
}

static const char *digest_of(const struct manifest *m, const char *name)
{
    for (int i = 0; i < m->len; i++)
        if (strcmp(m->files[i].name, name) == 0)
            return m->files[i].digest;
    return "";
}

static int compare(struct replay *r, int size, const char *dir, struct err *err)
{
    char again[CHECKPOINT_PATH], a[CHECKPOINT_PATH + 32], b[CHECKPOINT_PATH + 32];
    struct manifest was, is;
    double apart = 0;
    snprintf(again, sizeof(again), "%.*s/step-%08lld", CHECKPOINT_PATH - 32, dir, (long long)r->last);
    if (manifest_read(&was, r->to, err) < 0 || manifest_read(&is, again, err) < 0)
        return -1;
    snprintf(a, sizeof(a), "%s/%s", r->to, CHECKPOINT_WEIGHTS);
    snprintf(b, sizeof(b), "%s/%s", again, CHECKPOINT_WEIGHTS);
    if (distance(&apart, a, b, err) < 0)
        return -1;
    bool same = strcmp(digest_of(&was, CHECKPOINT_WEIGHTS), digest_of(&is, CHECKPOINT_WEIGHTS)) == 0 &&
                strcmp(digest_of(&was, CHECKPOINT_MOMENTS), digest_of(&is, CHECKPOINT_MOMENTS)) == 0;
    bool right = same || (!r->reproducible && apart <= NEAR);
    const char *verdict = same ? "same bits" : right ? "equal up to rounding" : "differs";
    r->differs = r->differs || !right;
    if (!r->json)
        printf("%-7d %-20s %-10.2g %s\n", size, verdict, apart, digest_of(&is, CHECKPOINT_WEIGHTS));
    json_array_append_new(r->rows, json_make("{s:i, s:s, s:b, s:b, s:f, s:s, s:s}", "ranks", size,
                                             "verdict", verdict, "same_bits", (int)same, "right",
                                             (int)right, "distance", apart, "weights",
                                             digest_of(&is, CHECKPOINT_WEIGHTS), "moments",
                                             digest_of(&is, CHECKPOINT_MOMENTS)));
    return 0;
}

struct one {
    struct replay *r;
    int            size;
};

static int replay_one(void *arg, const char *dir, struct err *err)
{
    struct one *o = arg;
    return run_ranks(o->r, o->size, dir, err) < 0 ? -1 : compare(o->r, o->size, dir, err);
}

static int replay_all(struct replay *r, struct err *err)
{
    struct manifest m;
    if (manifest_read(&m, r->to, err) < 0)
        return -1;
    if (!r->json)
        printf("steps %lld to %lld repeated, %s; reproducible: %s\n"
               "ranks   verdict              distance   digest of the weights\n"
               "%-7s %-20s %-10s %s\n",
               (long long)r->first + 1, (long long)r->last,
               r->from[0] ? r->from : "from the beginning", r->reproducible ? "true" : "false", "was", "",
               "", digest_of(&m, CHECKPOINT_WEIGHTS));
    fflush(stdout);
    for (int i = 0; i < r->sizes; i++) {
        struct one o = {r, r->size[i]};
        if (train_cmd_in_scratch(replay_one, &o, err) < 0)
            return -1;
    }
    if (!r->json)
        return 0;
    json_t *o = json_make("{s:i, s:I, s:I, s:b, s:s, s:O}", "schema", 2, "from_step",
                          (json_int_t)r->first, "to_step", (json_int_t)r->last, "reproducible",
                          (int)r->reproducible, "weights", digest_of(&m, CHECKPOINT_WEIGHTS), "replays",
                          r->rows);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "{}");
    free(text);
    json_decref(o);
    return 0;
}

int train_cmd_verify_resume(int argc, char **argv)
{
    const char *sizes = "1,2", *steps = "1";
    struct replay r = {.rows = json_array()};
    const struct train_cmd_option options[] = {
        {.name = "--dir", .value = &r.dir, .required = true},
        {.name = "--ranks", .value = &sizes},
        {.name = "--steps", .value = &steps},
        {.name = "--json", .flag = &r.json},
        {.name = NULL},
    };
    struct err err = {0};
    char *end;
    int rc = train_cmd_parse(argc, argv, options);
    if (rc == 0) {
        long long n = strtoll(steps, &end, 10);
        if (*end || n < 1)
            err_set(&err, ERR_USAGE, "--steps %.40s: expected a whole number of at least 1", steps);
        else if (parse_sizes(&r, sizes, &err) == 0 && find_steps(&r, n, &err) == 0)
            replay_all(&r, &err);
        rc = err.code != ERR_NONE ? train_cmd_fail("verify-resume", &err)
             : r.differs          ? EXIT_DESYNC
                                  : EXIT_DONE;
    }
    json_decref(r.rows);
    json_decref(r.job);
    return rc;
}
