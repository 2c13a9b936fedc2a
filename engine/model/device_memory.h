/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.h - total and free memory of the device and of the host */
#ifndef ENGINE_MODEL_DEVICE_MEMORY_H
#define ENGINE_MODEL_DEVICE_MEMORY_H

#include <stdint.h>

/* Free and total memory of the backend's device; 0 if unknown. On the CPU, the machine's memory or, if less, what
 * the control group still allows. */
struct device_memory {
    int64_t free, total;
};
struct device_memory device_memory(void);
/* The same for host memory, whatever the backend. */
struct device_memory device_memory_host(void);
/* The limit that no process can exceed: the device's total memory, or the host's including swap; 0 if unknown. */
int64_t device_memory_most(void);

#endif
