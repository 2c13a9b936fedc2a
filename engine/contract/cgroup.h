/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.h - where this process stands in the hierarchy of control groups */
#ifndef ENGINE_CONTRACT_CGROUP_H
#define ENGINE_CONTRACT_CGROUP_H

#include <stddef.h>

/* The directory of our group below /sys/fs/cgroup; "" where there is no unified hierarchy. */
void cgroup_dir(char *out, size_t size);

#endif
