/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h - libnccl.so.2, loaded on demand; its interface declared here
 *
 * The declarations hold for every NCCL from 2.18 on; the config struct is 2.17's (later versions only append fields,
 * and `size` tells NCCL where ours ends). So one program runs with any of these versions, and builds without NCCL.
 */
#ifndef ENGINE_DIST_NCCL_H
#define ENGINE_DIST_NCCL_H

#include <limits.h>
#include <stddef.h>

struct err;

enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7
};
enum nccl_type { NCCL_UINT8 = 1, NCCL_INT64 = 4, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8 };
enum nccl_op { NCCL_SUM = 0, NCCL_MAX = 2 };

enum { NCCL_OLDEST = 21800, NCCL_ID = 128, NCCL_UNSET = INT_MIN };

struct nccl_id {
    char bytes[NCCL_ID];
};

struct nccl_config {
    size_t       size;
    unsigned     magic, version;
    int          blocking, cga_cluster_size, min_ctas, max_ctas;
    const char  *net_name;
    int          split_share;
};

#define NCCL_CONFIG                                                                            \
    {sizeof(struct nccl_config), 0xcafebeef, 21700, 0, NCCL_UNSET, NCCL_UNSET, NCCL_UNSET, NULL, \
     NCCL_UNSET}

/* Communicators and streams are opaque pointers. Results are enum nccl_result. */
#define NCCL_FUNCTIONS(X)                                                                      \
    X(GetVersion, int, (int *version))                                                         \
    X(GetErrorString, const char *, (int result))                                              \
    X(GetLastError, const char *, (void *comm))                                                \
    X(GetUniqueId, int, (struct nccl_id *id))                                                  \
    X(CommInitRankConfig, int,                                                                 \
      (void **comm, int world, struct nccl_id id, int rank, struct nccl_config *config))       \
    X(CommGetAsyncError, int, (void *comm, int *result))                                       \
    X(CommFinalize, int, (void *comm))                                                         \
    X(CommDestroy, int, (void *comm))                                                          \
    X(CommAbort, int, (void *comm))                                                            \
    X(GroupStart, int, (void))                                                                 \
    X(GroupEnd, int, (void))                                                                   \
    X(AllReduce, int,                                                                          \
      (const void *from, void *to, size_t n, int type, int op, void *comm, void *stream))      \
    X(Reduce, int,                                                                             \
      (const void *from, void *to, size_t n, int type, int op, int root, void *comm,           \
       void *stream))                                                                          \
    X(Broadcast, int,                                                                          \
      (const void *from, void *to, size_t n, int type, int root, void *comm, void *stream))    \
    X(ReduceScatter, int,                                                                      \
      (const void *from, void *to, size_t each, int type, int op, void *comm, void *stream))   \
    X(AllGather, int,                                                                          \
      (const void *from, void *to, size_t each, int type, void *comm, void *stream))

struct nccl {
    int  version;      /* 22809 = 2.28.9 */
    char name[32];     /* "NCCL 2.28.9" */
    char note[160];    /* a sentence about a version with known faults, or "" */
#define NCCL_FIELD(name, result, arguments) result(*name) arguments;
    NCCL_FUNCTIONS(NCCL_FIELD)
#undef NCCL_FIELD
};

/* Once per process; *out stays valid until the process ends. `file` NULL: $JOBCTL_NCCL, or
 * libnccl.so.2 in the system's search path. ERR_NO_DEVICE: missing, too old, or lacks a
 * function. */
int nccl_load(const struct nccl **out, const char *file, struct err *err);

#endif
