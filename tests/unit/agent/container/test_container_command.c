/* SPDX-License-Identifier: Apache-2.0 */
/* test_container_command.c - the exact command line of every runtime, word by word */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "agent/container/container_command.h"
#include "agent/container/container_kind.h"
#include "agent/container/container_words.h"

static const char *const command[] = {"/bin/sh", "-c", "train", NULL};
static const char *const two_gpus[] = {"GPU-a", "GPU-b", NULL};
static const char *const limits[] = {"memlock=-1:-1", "nofile=1024:4096", NULL};
static const char *const env[] = {"RANK", "JOBCTL_CONTAINER=jobctl-7.1-g2-n0-r0-ab", "PATH=/opt/bin", NULL};
static const struct container_mount mounts[] = {{"/home/u/job", "/home/u/job", false}, {"/scratch/d", "/data", true}};
static const unsigned groups[] = {100, 2000};

static struct container a_container(const char *runtime, const char *program)
{
    return (struct container){
        .kind = container_kind_of(runtime), .program = program, .image = "docker://nvcr.io/nvidia/pytorch:24.05-py3",
        .uid = 1000, .gid = 1000, .groups = groups, .n_groups = 2, .job = 7, .nonce = "abcd", .run_dir = "/home/u/job/1",
        .name = "jobctl-7.1-g2-n0-r0-ab", .workdir = "/home/u/job", .mounts = mounts, .n_mounts = 2, .gpus = two_gpus,
        .limits = limits, .env = env, .descriptors = 2};
}

/* Compares with words that are separated by one newline each. */
static void expect(struct container_words *got, const char *want)
{
    char text[8192] = "";
    for (int i = 0; i < got->n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? "\n" : "", got->word[i]);
    assert_string_equal(text, want);
    assert_null(container_words_end(got)[got->n]);
    container_words_fini(got);
}

#define SHARED "--network=host\n--ipc=host\n--pid=host\n--uts=host\n--security-opt=label=disable\n--pids-limit=-1\n"
#define SHARED_PODMAN "--stop-timeout=0\n" SHARED
#define LABELS                                                                                                         \
    "--name=jobctl-7.1-g2-n0-r0-ab\n--label=jobctl.job=7\n--label=jobctl.nonce=abcd\n"                                 \
    "--label=jobctl.run_dir=/home/u/job/1\n"
#define MOUNTS                                                                                                         \
    "--mount=type=bind,source=/home/u/job,target=/home/u/job\n--mount=type=bind,source=/scratch/d,target=/data,readonly\n" \
    "--workdir=/home/u/job\n"
#define ENV "--env=RANK\n--env=JOBCTL_CONTAINER=jobctl-7.1-g2-n0-r0-ab\n--env=PATH=/opt/bin\n"
#define ENTRY "--entrypoint=/bin/sh\nnvcr.io/nvidia/pytorch:24.05-py3\n-c\ntrain"

static void docker_runs_as_the_user_with_gpus_in_one_word(void **state)
{
    (void)state;
    struct container_words w = {.word = NULL};
    struct container c = a_container("docker", "/usr/bin/docker");
    c.cpus = "0-3,8";
    c.options = (const char *const[]){"--host=tcp://box:2375", "--shm-size=8g", "--ulimit=nofile=9:9", NULL};
    container_run(&w, &c, command);
    expect(&w, "/usr/bin/docker\n--host=tcp://box:2375\nrun\n--rm\n--pull=never\n" SHARED LABELS
               "--ulimit=memlock=-1:-1\n--user=1000:1000\n--group-add=100\n--group-add=2000\n"
               "--gpus=\"device=GPU-a,GPU-b\"\n--cpuset-cpus=0-3,8\n" MOUNTS ENV "--shm-size=8g\n--ulimit=nofile=9:9\n" ENTRY);
}

static void docker_without_root_maps_its_root_to_the_user(void **state)
{
    (void)state;
    struct container_words w = {.word = NULL};
    struct container c = a_container("docker", "docker");
    c.rootless = true;
    c.gpus = NULL;
    c.limits = NULL;
    container_run(&w, &c, command);
    expect(&w, "docker\nrun\n--rm\n--pull=never\n" SHARED LABELS "--user=0:0\n" MOUNTS ENV ENTRY);
}

static void podman_as_root_gets_gpus_by_cdi(void **state)
{
    (void)state;
    struct container_words w = {.word = NULL};
    struct container c = a_container("podman", "/usr/bin/podman");
    c.uid = c.gid = 0;
    c.n_groups = 0;
    c.options = (const char *const[]){"--runtime=runc", "--storage-driver=vfs", "--ulimit=nproc=5:5", NULL};
    container_run(&w, &c, command);
    expect(&w, "/usr/bin/podman\n--runtime=runc\n--storage-driver=vfs\nrun\n--rm\n--pull=never\n" SHARED_PODMAN LABELS
               "--ulimit=memlock=-1:-1\n--ulimit=nofile=1024:4096\n--user=0:0\n"
               "--device=nvidia.com/gpu=GPU-a\n--device=nvidia.com/gpu=GPU-b\n" MOUNTS ENV
               "--preserve-fds=2\n--ulimit=nproc=5:5\n" ENTRY);
}

static void podman_without_root_keeps_the_user(void **state)
{
    (void)state;
    struct container_words w = {.word = NULL};
    struct container c = a_container("podman", "podman");
    c.rootless = true;
    c.gpus = NULL;
    container_run(&w, &c, command);
    expect(&w, "podman\nrun\n--rm\n--pull=never\n" SHARED_PODMAN LABELS
               "--ulimit=memlock=-1:-1\n--ulimit=nofile=1024:4096\n--userns=keep-id\n" MOUNTS ENV
               "--preserve-fds=2\n" ENTRY);
}

static void apptainer_runs_the_pulled_file(void **state)
{
    (void)state;
    static const struct {
        const char *runtime;
        const char *program;
    } rows[] = {{"apptainer", "/usr/bin/apptainer"}, {"singularity", "/usr/bin/singularity"}};
    for (int i = 0; i < 2; i++) {
        char want[2048];
        struct container_words w = {.word = NULL};
        struct container c = a_container(rows[i].runtime, rows[i].program);
        c.file = "/home/u/.cache/jobctl/images/nvcr.io+nvidia+pytorch,24.05-py3.sif";
        c.options = (const char *const[]){"--quiet", "--no-home", NULL};
        container_run(&w, &c, command);
        snprintf(want, sizeof(want), "%s\n--quiet\nexec\n--nv\n--bind=/home/u/job:/home/u/job\n--bind=/scratch/d:/data:ro\n"
                 "--pwd=/home/u/job\n--env=JOBCTL_CONTAINER=jobctl-7.1-g2-n0-r0-ab\n--env=PATH=/opt/bin\n--no-home\n"
                 "/home/u/.cache/jobctl/images/nvcr.io+nvidia+pytorch,24.05-py3.sif\n/bin/sh\n-c\ntrain", rows[i].program);
        expect(&w, want);
    }
}

static void enroot_is_a_step_of_slurm(void **state)
{
    (void)state;
    struct container_words w = {.word = NULL};
    struct container c = a_container("enroot", "/usr/bin/srun");
    c.file = "/home/u/.cache/jobctl/images/x.sqsh";
    c.node = "gpu3";
    c.options = (const char *const[]){"--container-writable", NULL};
    container_run(&w, &c, command);
    expect(&w, "/usr/bin/srun\n--overlap\n--nodes=1\n--ntasks=1\n--mem=0\n--cpu-bind=none\n--unbuffered\n"
               "--no-container-mount-home\n--no-container-entrypoint\n--nodelist=gpu3\n"
               "--job-name=jobctl-7.1-g2-n0-r0-ab\n"
               "--container-mounts=/home/u/job:/home/u/job,/scratch/d:/data:ro\n--container-workdir=/home/u/job\n"
               "--export=ALL,JOBCTL_CONTAINER=jobctl-7.1-g2-n0-r0-ab,PATH=/opt/bin\n"
               "--container-env=RANK,JOBCTL_CONTAINER,PATH\n--container-writable\n"
               "--container-image=/home/u/.cache/jobctl/images/x.sqsh\n/bin/sh\n-c\ntrain");
}

/* The words after the script, which is compared by its first line. */
static void expect_script(struct container_words *w, const char *begins, const char *want)
{
    assert_true(w->n > 3);
    assert_string_equal(w->word[0], "/bin/sh");
    assert_string_equal(w->word[1], "-c");
    assert_memory_equal(w->word[2], begins, strlen(begins));
    struct container_words rest = {.word = NULL};
    for (int i = 3; i < w->n; i++)
        container_words_add(&rest, w->word[i]);
    expect(&rest, want);
    container_words_fini(w);
}

static void images_are_pulled_with_their_registry(void **state)
{
    (void)state;
    struct container_words w = {.word = NULL};
    struct container c = a_container("podman", "podman");
    c.image = "busybox";
    c.options = (const char *const[]){"--root=/r", "--shm-size=1g", NULL};
    container_pull(&w, &c);
    expect_script(&w, "image=$1 full=$2; shift 2\n\"$@\" image inspect",
                  "jobctl\nbusybox\ndocker.io/library/busybox:latest\npodman\n--root=/r");
    c.kind = container_kind_of("apptainer");
    c.program = "apptainer";
    c.file = "/c/x.sif";
    c.options = NULL;
    container_pull(&w, &c);
    expect_script(&w, "file=$1 from=$2", "jobctl\n/c/x.sif\ndocker://docker.io/library/busybox:latest\napptainer\npull");
    c.kind = container_kind_of("enroot");
    c.image = "nvcr.io/nvidia/pytorch:24.05-py3";
    container_pull(&w, &c);
    expect_script(&w, "file=$1 from=$2",
                  "jobctl\n/c/x.sif\ndocker://nvcr.io#nvidia/pytorch:24.05-py3\nenroot\nimport\n--output");
    c.file = NULL;
    container_pull(&w, &c);
    assert_int_equal(w.n, 0);
}

static void containers_are_removed_by_their_labels(void **state)
{
    (void)state;
    struct container_words w = {.word = NULL};
    struct container c = a_container("podman", "podman");
    c.options = (const char *const[]){"--root=/r", "--shm-size=1g", NULL};
    container_remove(&w, &c);
    expect_script(&w, "nonce=$1 dir=$2; shift 2", "jobctl\nabcd\n/home/u/job/1\npodman\n--root=/r");
    c = a_container("docker", "docker");
    c.run_dir = NULL;
    container_remove(&w, &c);
    expect_script(&w, "nonce=$1 dir=$2; shift 2", "jobctl\nabcd\n\ndocker");
    c.kind = container_kind_of("apptainer");
    container_remove(&w, &c);
    assert_int_equal(w.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(docker_runs_as_the_user_with_gpus_in_one_word),
        cmocka_unit_test(docker_without_root_maps_its_root_to_the_user),
        cmocka_unit_test(podman_as_root_gets_gpus_by_cdi),
        cmocka_unit_test(podman_without_root_keeps_the_user),
        cmocka_unit_test(apptainer_runs_the_pulled_file),
        cmocka_unit_test(enroot_is_a_step_of_slurm),
        cmocka_unit_test(images_are_pulled_with_their_registry),
        cmocka_unit_test(containers_are_removed_by_their_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
