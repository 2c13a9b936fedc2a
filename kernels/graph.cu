/* SPDX-License-Identifier: Apache-2.0 */
/* graph.cu - CUDA graphs: record kernel calls once, replay them with one call; see cuda.h
 *
 * A failure while recording is not a device failure: the
 * recording is discarded, and the caller runs the calls one by one.
 */
#include <stdio.h>

#include "kernels/device.cuh"

/* Printed once: without graphs steps are as correct as before, but slower. */
static void graph_tell(const char *what, const char *why)
{
    static bool told;
    if (!told)
        fprintf(stderr, "a step could not be recorded, so its kernels are started one by one: %s: %s\n", what, why);
    told = true;
}

static bool graph_ok(cudaError_t e, const char *what)
{
    if (e != cudaSuccess)
        graph_tell(what, cudaGetErrorString(e));
    return e == cudaSuccess;
}

static int graph_begin(void)
{
    if (device.state != KERN_OK)
        return -1;
    if (!graph_ok(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal), "the capture's begin")) {
        cudaGetLastError(); /* not sticky */
        return -1;
    }
    device.recording = true;
    device.record_lost = false;
    return 0;
}

static void *graph_end(void)
{
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    device.recording = false;
    if (device.record_lost)
        graph_tell("a call", device.lost_why);
    bool ok = graph_ok(cudaStreamEndCapture(device.stream, &graph), "the capture's end") && graph;
    ok = ok && !device.record_lost && graph_ok(cudaGraphInstantiateWithFlags(&ready, graph, 0), "the graph");
    if (graph)
        cudaGraphDestroy(graph);
    if (ok)
        return (void *)ready;
    cudaGetLastError();
    return NULL;
}

static void graph_run(void *graph)
{
    if (device.state == KERN_OK)
        device_ok(cudaGraphLaunch((cudaGraphExec_t)graph, device.stream), "a recorded step");
}

static void graph_drop(void *graph)
{
    cudaStreamSynchronize(device.stream); /* it may be running; the next call reports a failure */
    cudaGraphExecDestroy((cudaGraphExec_t)graph);
}

static unsigned graph_moves(void)
{
    return device.moves;
}

static const struct kern_graphs graph_table = {graph_begin, graph_end, graph_run, graph_drop,
                                               graph_moves};
