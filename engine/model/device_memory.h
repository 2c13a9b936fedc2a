/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.h - how much memory there is, and how much is free */
#ifndef ENGINE_MODEL_DEVICE_MEMORY_H
#define ENGINE_MODEL_DEVICE_MEMORY_H

#include <stdint.h>

/* Memory of the backend's device that is free now, and all of it; 0 where not known. On the CPU
 * the machine's or, if that is less, what the control group still allows. */
struct device_memory {
    int64_t free, total;
};
struct device_memory device_memory(void);
/* Of this process's memory, whatever computes. */
struct device_memory device_memory_host(void);

#endif
