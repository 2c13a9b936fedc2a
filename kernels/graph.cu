/* SPDX-License-Identifier: Apache-2.0 */
/* graph.cu - CUDA graphs: record kernel calls once, replay them with one call; see cuda.h
 *
 * A failure while recording is not a device failure: the
 * recording is discarded, and the caller runs the calls one by one.
 */
#include "kernels/device.cuh"

static int graph_begin(void)
{
    if (device.state != KERN_OK)
        return -1;
    if (cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess) {
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
    bool ok = cudaStreamEndCapture(device.stream, &graph) == cudaSuccess && graph;
    ok = ok && !device.record_lost && cudaGraphInstantiateWithFlags(&ready, graph, 0) == cudaSuccess;
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
