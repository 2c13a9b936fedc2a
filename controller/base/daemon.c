/* SPDX-License-Identifier: Apache-2.0 */
/* daemon.c - clock and test hook for all parts of the controller; see daemon.h */
#include "controller/base/daemon.h"

#include <signal.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/clock.h"

int64_t daemon_now_ms(void)
{
    return clock_unix_ms();
}

uint64_t daemon_random(void)
{
    uint64_t value = 0;
    if (getrandom(&value, sizeof(value), 0) != sizeof(value))
        value = (uint64_t)daemon_now_ms() * UINT64_C(0x9e3779b97f4a7c15);
    return value;
}

void daemon_test_hook(struct daemon *d)
{
    if (d->die_at_event > 0 && --d->die_at_event == 0)
        kill(getpid(), SIGKILL);
}

void daemon_stop(struct daemon *d)
{
    d->stopping = true;
    uv_stop(&d->loop);
}
