/* SPDX-License-Identifier: Apache-2.0 */
/* profile.cu - durations of kernels, products and copies by events; see cuda.h
 *
 * Calls of one operation, kernel and grid share a row. Events are kept for the next profile.
 */
#include <cxxabi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device.cuh"

struct profile_call {
    int         row;
    cudaEvent_t from, to;
};

static struct {
    bool                     on;
    struct kern_profile_row *row;
    const void             **kernel; /* of each row */
    struct profile_call     *call;
    int                      rows, rows_room, calls, calls_room;
} profile;

/* Room for one more, zeroed. */
template <typename T> static bool profile_room(T **list, int used, int *room)
{
    if (used < *room)
        return true;
    const int more = *room ? 2 * *room : 256;
    T *grown = (T *)realloc((void *)*list, sizeof(T) * (size_t)more);
    if (!grown)
        return false;
    memset((void *)(grown + *room), 0, sizeof(T) * (size_t)(more - *room));
    *list = grown;
    *room = more;
    return true;
}

/* "void add_kernel<__nv_bfloat16, 4>(float*)" -> "add_kernel<bf16,4>" */
static void profile_plain(char *to, size_t size, const char *from)
{
    static const char bf16_name[] = "__nv_bfloat16";
    size_t n = 0;
    from += strncmp(from, "void ", 5) == 0 ? 5 : 0;
    while (*from && *from != '(' && n + sizeof("bf16") < size) {
        const bool is_bf16 = strncmp(from, bf16_name, sizeof(bf16_name) - 1) == 0;
        if (is_bf16)
            n += (size_t)snprintf(to + n, size - n, "bf16");
        else if (*from != ' ')
            to[n++] = *from;
        from += is_bf16 ? sizeof(bf16_name) - 1 : 1;
    }
    to[n] = '\0';
}

/* The kernel's name as in its source; "" where the toolkit cannot tell it. */
static void profile_name(char *to, size_t size, const void *kernel)
{
    const char *symbol = NULL;
    int status = -1;
    to[0] = '\0';
#if !defined(CUDA_ON_CPU) && CUDART_VERSION >= 12030
    if (cudaFuncGetName(&symbol, kernel) != cudaSuccess) { /* a driver of CUDA 12.2 or older has no such function */
        symbol = NULL;
        cudaGetLastError(); /* not a device failure */
    }
#else
    (void)kernel;
#endif
    if (!symbol)
        return;
    char *text = abi::__cxa_demangle(symbol, NULL, NULL, &status);
    profile_plain(to, size, text && status == 0 ? text : symbol);
    free(text);
}

static bool profile_same(int i, const struct profile_what *w)
{
    const struct kern_profile_row *r = &profile.row[i];
    return profile.kernel[i] == w->kernel && r->grid[0] == w->grid.x && r->grid[1] == w->grid.y &&
           r->grid[2] == w->grid.z && r->m == w->m && r->n == w->n && r->k == w->k && strcmp(r->op, w->op) == 0;
}

/* The row of these calls, or a new one; -1: no memory. */
static int profile_row(const struct profile_what *w)
{
    for (int i = 0; i < profile.rows; i++)
        if (profile_same(i, w))
            return i;
    int room = profile.rows_room;
    if (!profile_room(&profile.row, profile.rows, &room) ||
        !profile_room(&profile.kernel, profile.rows, &profile.rows_room))
        return -1;
    struct kern_profile_row *r = &profile.row[profile.rows];
    *r = {};
    snprintf(r->op, sizeof(r->op), "%s", w->op);
    profile_name(r->kernel, sizeof(r->kernel), w->kernel);
    r->grid[0] = w->grid.x, r->grid[1] = w->grid.y, r->grid[2] = w->grid.z;
    r->m = w->m, r->n = w->n, r->k = w->k;
    profile.kernel[profile.rows] = w->kernel;
    return profile.rows++;
}

static bool profile_events(struct profile_call *c)
{
    return c->from || (device_ok(cudaEventCreate(&c->from), "an event") &&
                       device_ok(cudaEventCreate(&c->to), "an event"));
}

static int profile_from(const struct profile_what &w)
{
    if (!profile.on || device.recording || device.state != KERN_OK)
        return -1;
    const int row = profile_row(&w);
    if (row < 0 || !profile_room(&profile.call, profile.calls, &profile.calls_room) ||
        !profile_events(&profile.call[profile.calls]))
        return -1;
    profile.call[profile.calls].row = row;
    device_ok(cudaEventRecord(profile.call[profile.calls].from, device.stream), "a profile");
    return profile.calls++;
}

static void profile_to(int call)
{
    if (call >= 0)
        device_ok(cudaEventRecord(profile.call[call].to, device.stream), "a profile");
}

static void profile_start(void)
{
    profile.rows = profile.calls = 0;
    profile.on = true;
}

static bool profile_add(const struct profile_call *c)
{
    struct kern_profile_row *r = &profile.row[c->row];
    float ms = 0;
    if (!device_ok(cudaEventElapsedTime(&ms, c->from, c->to), "a profile"))
        return false;
    r->least = r->calls == 0 || ms < r->least ? ms : r->least;
    r->ms += ms;
    r->calls++;
    return true;
}

static const struct kern_profile_row *profile_stop(int *rows)
{
    profile.on = false;
    bool ok = device.state == KERN_OK && device_ok(cudaStreamSynchronize(device.stream), "a profile");
    for (int i = 0; ok && i < profile.calls; i++)
        ok = profile_add(&profile.call[i]);
    *rows = profile.rows;
    return ok ? profile.row : NULL;
}

static const struct kern_profile profile_table = {profile_start, profile_stop};
