/* SPDX-License-Identifier: Apache-2.0 */
/* event_loop.c - see event_loop.h */
#include "agent/os/event_loop.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/err.h"

/* libuv called abort() itself: this is not a signal from outside, so any function may be called. */
static void on_abort(int number)
{
    struct err err = {0};
    (void)number;
    err_set_errno(&err, errno, "cannot make an event loop");
    if (write(STDERR_FILENO, "jobctl: ", 8) < 0 || write(STDERR_FILENO, err.text, strlen(err.text)) < 0 ||
        write(STDERR_FILENO, "\n", 1) < 0) {
        /* nobody listens */
    }
    _exit(err_exit_code(ERR_SYSTEM));
}

int event_loop_open(uv_loop_t *loop, struct err *err)
{
    void (*was)(int) = signal(SIGABRT, on_abort);
    const int rc = uv_loop_init(loop);
    signal(SIGABRT, was == SIG_ERR ? SIG_DFL : was);
    return rc == 0 ? 0 : err_set_errno(err, -rc, "cannot make an event loop");
}
