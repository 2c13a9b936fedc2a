/* SPDX-License-Identifier: Apache-2.0 */
/* test_descriptors.c - descriptors are closed, with close_range() and on kernels without it */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "agent/os/descriptors.h"

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* From now on it is a kernel that does not know close_range. */
static int forget_close_range(void)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = 4, .filter = program};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                   prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0
               ? 0
               : -1;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* In a child: hundreds are open, more than one block of /proc lists; 0 if the right ones are left. */
static int try(bool old_kernel)
{
    enum { MANY = 400, FIRST = 10, KEPT = FIRST + 57 };
    for (int fd = FIRST; fd < FIRST + MANY; fd++)
        if (dup2(0, fd) < 0)
            return 2;
    if (old_kernel && (forget_close_range() < 0 || syscall(SYS_close_range, 9000, 9001, 0) == 0))
        return 3;
    descriptors_close(FIRST, KEPT - 1);
    descriptors_close(KEPT + 1, ~0U);
    descriptors_close(KEPT + 1, KEPT); /* nothing */
    for (int fd = 0; fd < FIRST + MANY + 50; fd++)
        if (is_open(fd) != (fd == KEPT) && fd >= FIRST)
            return 1;
    return is_open(0) ? 0 : 4;
}

static void closes(void **state)
{
    (void)state;
    for (int old = 0; old < 2; old++) {
        int status = -1;
        const pid_t pid = fork();
        if (pid == 0)
            _exit(try(old));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        if (old && WEXITSTATUS(status) == 3) {
            print_message("no seccomp here: not tried without close_range\n");
            continue;
        }
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(closes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
