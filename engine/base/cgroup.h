/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup.h - path of this process's control group */
#ifndef ENGINE_BASE_CGROUP_H
#define ENGINE_BASE_CGROUP_H

#include <stddef.h>

/* The directory of our cgroup below /sys/fs/cgroup; "" without a unified (v2) hierarchy. */
void cgroup_dir(char *out, size_t size);

#endif
