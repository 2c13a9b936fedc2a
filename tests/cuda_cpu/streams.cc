/* SPDX-License-Identifier: Apache-2.0 */
/* streams.cc - streams, events and graphs; see cuda_runtime.h
 *
 * A stream is a queue, and as lazy as the rules permit: what was put into it runs when somebody waits for
 * it, by cudaStreamSynchronize(), an event, a copy to ordinary memory, cudaFree().  A stream that waits
 * for an event of another runs that one up to the event, and no further.  A wait that is missing so shows
 * as numbers that are not there yet.
 *
 * A collective (cuda_cpu_enqueue) in a stream that is not of the greatest priority ends the program.
 * CUDA_CPU_LAZY set: collectives as well; otherwise they begin when they are put into the stream.
 * CUDA_CPU_LATE set: an event is not reached when it is asked for the first time.
 * CUDA_CPU_REPORT set: at the end a line says how many graphs were recorded and run.
 */
#include "cuda_cpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <vector>

enum { URGENT = -5 }; /* as on an H200 */

struct cuda_cpu_stream {
    std::deque<std::function<bool()>> steps;
    uint64_t put, done;
    int      priority;
};

struct cuda_cpu_event {
    std::shared_ptr<double> at; /* on the clock, when it is reached */
    cudaStream_t           stream;
    uint64_t               after; /* steps of it */
    bool                   asked;
};

struct cuda_cpu_graph {
    std::vector<std::function<bool()>> steps;
    cudaStream_t launched_in; /* the last launch, or NULL */
    uint64_t     until;       /* steps of that stream, with which it ends */
};

static cuda_cpu_stream              legacy; /* of those who name none */
static std::vector<cudaStream_t>    streams = {&legacy}; /* never freed: an event may name one that is closed */
static cuda_cpu_graph              *recording;
static cudaStream_t                 recorded; /* the stream whose calls it gets; those of others run */
static long                         graphs_made, graphs_run, graphs_live;
static double                       clock_ms;
static unsigned long                events;

unsigned long cuda_cpu_events(void)
{
    return events;
}

void cuda_cpu_pass(float ms)
{
    clock_ms += ms;
}

/* --- queues --------------------------------------------------------------------------------- */

static cuda_cpu_stream *queue_of(cudaStream_t s)
{
    return s ? s : &legacy;
}

bool cuda_cpu_recording(void)
{
    return recording != NULL;
}

void cuda_cpu_not_recorded(const char *what)
{
    if (recording)
        cuda_cpu_die(what);
}

cudaError_t cuda_cpu_submit(cudaStream_t s, const std::function<bool()> &step)
{
    if (recording && queue_of(s) == recorded) {
        recording->steps.push_back(step);
        return cudaSuccess;
    }
    queue_of(s)->steps.push_back(step);
    queue_of(s)->put++;
    return cudaSuccess;
}

cudaError_t cuda_cpu_submit_call(cudaStream_t s, const std::function<void()> &call)
{
    return cuda_cpu_submit(s, [=] {
        call();
        return true;
    });
}

/* Whether `until` steps of a stream are done, after those were run that can be. */
static bool run(cuda_cpu_stream *s, uint64_t until)
{
    while (s->done < until) {
        if (!s->steps.front()())
            return false;
        s->steps.pop_front();
        s->done++;
    }
    return true;
}

static void finish_to(cuda_cpu_stream *s, uint64_t until)
{
    while (!run(s, until))
        usleep(200);
}

void cuda_cpu_finish(cudaStream_t s)
{
    finish_to(queue_of(s), queue_of(s)->put);
}

/* For the stand-in of NCCL: step(arg) is 0 as long as it is not done. A rank may wait for another one elsewhere than
 * here, so a collective begins at once. */
extern "C" void cuda_cpu_enqueue(void *stream, int (*step)(void *), void *arg)
{
    cuda_cpu_stream *s = queue_of((cudaStream_t)stream);
    if (s->priority != URGENT)
        cuda_cpu_die("a collective in a stream of low priority: it waits behind the kernels that it should run beside");
    const bool lazy = getenv("CUDA_CPU_LAZY");
    if (!lazy)
        cuda_cpu_finish(s);
    cuda_cpu_submit(s, [=] { return step(arg) != 0; });
    if (!lazy)
        run(s, s->put);
}

void cuda_cpu_finish_all(void)
{
    for (size_t i = 0; i < streams.size(); i++)
        cuda_cpu_finish(streams[i]);
}

/* --- streams -------------------------------------------------------------------------------- */

/* Lets other libraries find cuda_cpu_enqueue(): the program has loaded this one for itself alone. */
static void be_found(void)
{
    Dl_info info;
    if (dladdr((void *)&cuda_cpu_enqueue, &info))
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/* CUDA Runtime API, "Stream Management": smaller numbers go first; others than these are brought into the range. */
extern "C" cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = URGENT;
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned, int priority)
{
    *s = new cuda_cpu_stream{};
    (*s)->priority = priority < URGENT ? URGENT : priority > 0 ? 0 : priority;
    streams.push_back(*s);
    be_found();
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    return cudaStreamCreateWithPriority(s, flags, 0);
}

/* What is left in it runs with the next wait for all. */
extern "C" cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    run(queue_of(s), queue_of(s)->put);
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned)
{
    cuda_cpu_not_recorded("waiting for an event within a capture");
    const cudaStream_t other = queue_of(e->stream);
    const uint64_t after = e->after;
    if (cuda_cpu_error())
        return cuda_cpu_error();
    return cuda_cpu_submit(s, [=] { return run(other, after); });
}

/* --- events --------------------------------------------------------------------------------- */

extern "C" cudaError_t cudaEventCreate(cudaEvent_t *e)
{
    *e = new cuda_cpu_event{std::make_shared<double>(0.0), &legacy, 0, false};
    return cuda_cpu_error();
}

extern "C" cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned)
{
    return cudaEventCreate(e);
}

extern "C" cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    cuda_cpu_not_recorded("an event within a capture");
    const std::shared_ptr<double> at = e->at;
    events++;
    if (cuda_cpu_error())
        return cuda_cpu_error();
    cuda_cpu_submit_call(s, [=] { *at = clock_ms; });
    e->stream = queue_of(s);
    e->after = queue_of(s)->put;
    e->asked = false;
    return cudaSuccess;
}

/* In a thread that captures it is one of the "potentially unsafe API calls" (cudaThreadExchangeStreamCaptureMode()). */
extern "C" cudaError_t cudaEventQuery(cudaEvent_t e)
{
    cuda_cpu_not_recorded("asking for an event within a capture");
    const bool first = !e->asked && e->stream->done < e->after && getenv("CUDA_CPU_LATE");
    e->asked = true;
    if (first || !run(e->stream, e->after))
        return cuda_cpu_last(cudaErrorNotReady);
    return cuda_cpu_error();
}

extern "C" cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    cuda_cpu_not_recorded("waiting for an event within a capture");
    finish_to(e->stream, e->after);
    return cuda_cpu_error();
}

extern "C" cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    if (from->stream->done < from->after || to->stream->done < to->after)
        return cudaErrorNotReady;
    *ms = (float)(*to->at - *from->at);
    return cuda_cpu_error();
}

extern "C" cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    delete e;
    return cudaSuccess;
}

/* --- graphs --------------------------------------------------------------------------------- */

static void report(void)
{
    fprintf(stderr, "cuda_cpu: %ld graphs recorded, %ld left, run %ld times\n", graphs_made,
            graphs_live, graphs_run);
}

extern "C" cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode)
{
    static bool asked;
    if (!asked && getenv("CUDA_CPU_REPORT"))
        atexit(report);
    asked = true;
    cuda_cpu_not_recorded("a capture within a capture");
    if (!s)
        cuda_cpu_die("a capture of the legacy stream");
    if (cuda_cpu_fails("begin"))
        return cuda_cpu_last(cudaErrorStreamCaptureUnsupported);
    recording = new cuda_cpu_graph{};
    recorded = s;
    return cudaSuccess;
}

extern "C" cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *g)
{
    *g = recording;
    recording = NULL;
    return cuda_cpu_fails("capture") ? cuda_cpu_last(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

extern "C" cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *e, cudaGraph_t g, unsigned long long)
{
    *e = new cuda_cpu_graph(*g);
    graphs_made++;
    graphs_live++;
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
    delete g;
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphExecDestroy(cudaGraphExec_t e)
{
    if (e->launched_in && e->launched_in->done < e->until)
        cuda_cpu_die("a graph is destroyed that may be running");
    delete e;
    graphs_live--;
    return cudaSuccess;
}

extern "C" cudaError_t cudaGraphLaunch(cudaGraphExec_t e, cudaStream_t s)
{
    cuda_cpu_not_recorded("a graph within a capture");
    if (cuda_cpu_error())
        return cuda_cpu_error();
    graphs_run++;
    for (const auto &step : e->steps)
        cuda_cpu_submit(s, step);
    e->launched_in = queue_of(s);
    e->until = queue_of(s)->put;
    return cudaSuccess;
}
