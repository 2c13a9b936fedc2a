/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.c - a machine with $FAKE_CPUS CPU slots, by LD_PRELOAD
 *
 * Only a process's affinity mask shows them; threads run on the real CPUs.
 */
#include <sched.h>
#include <stdlib.h>

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    const char *count = getenv("FAKE_CPUS");
    (void)pid;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < (count ? atoi(count) : 1); i++)
        CPU_SET_S(i, size, set);
    return 0;
}
