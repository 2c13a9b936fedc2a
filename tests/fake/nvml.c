/* SPDX-License-Identifier: Apache-2.0 */
/* nvml.c - a stand-in for libnvidia-ml.so.1, for machines without a GPU
 *
 * FAKE_GPUS says what it shows, a letter per GPU: a, b, ... healthy ones with
 * that letter in the UUID; A, B, ... the same, divided by MIG; ! one that has
 * fallen off the bus.  "init" makes the driver refuse to start, "crash" end
 * the process, "hang" never answer.
 */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct memory {
    unsigned long long total, free, used;
};
struct pci {
    char legacy[16];
    unsigned numbers[5];
    char bus_id[32];
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int rc);
int nvmlSystemGetDriverVersion(char *out, unsigned size);
int nvmlSystemGetCudaDriverVersion_v2(int *out);
int nvmlDeviceGetCount_v2(unsigned *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, const char **out);
int nvmlDeviceGetUUID(const char *d, char *out, unsigned size);
int nvmlDeviceGetName(const char *d, char *out, unsigned size);
int nvmlDeviceGetPciInfo_v3(const char *d, struct pci *out);
int nvmlDeviceGetMemoryInfo(const char *d, struct memory *out);
int nvmlDeviceGetMigMode(const char *d, unsigned *now, unsigned *pending);

static const char *gpus(void)
{
    const char *s = getenv("FAKE_GPUS");
    return s ? s : "";
}

int nvmlInit_v2(void)
{
    if (strcmp(gpus(), "hang") == 0)
        for (;;)
            pause();
    if (strcmp(gpus(), "crash") == 0)
        abort();
    return strcmp(gpus(), "init") == 0 ? 9 : 0;
}

int nvmlShutdown(void)
{
    return 0;
}

const char *nvmlErrorString(int rc)
{
    return rc == 15 ? "GPU is lost" : rc == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    snprintf(out, size, "580.00");
    return 0;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    *out = 13000;
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = (unsigned)strlen(gpus());
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, const char **out)
{
    *out = gpus() + i;
    return **out == '!' ? 15 : 0;
}

int nvmlDeviceGetUUID(const char *d, char *out, unsigned size)
{
    snprintf(out, size, "GPU-%c", *d | 0x20);
    return 0;
}

int nvmlDeviceGetName(const char *d, char *out, unsigned size)
{
    (void)d;
    snprintf(out, size, "Fake A100");
    return 0;
}

int nvmlDeviceGetPciInfo_v3(const char *d, struct pci *out)
{
    memset(out, 0, sizeof(*out));
    snprintf(out->bus_id, sizeof(out->bus_id), "00000000:0%c:00.0", *d);
    return 0;
}

int nvmlDeviceGetMemoryInfo(const char *d, struct memory *out)
{
    (void)d;
    *out = (struct memory){42ULL << 30, 41ULL << 30, 1ULL << 30};
    return 0;
}

int nvmlDeviceGetMigMode(const char *d, unsigned *now, unsigned *pending)
{
    *now = *pending = *d >= 'A' && *d <= 'Z';
    return 0;
}
