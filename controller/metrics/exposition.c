/* SPDX-License-Identifier: Apache-2.0 */
/* exposition.c - see exposition.h */
#include "controller/metrics/exposition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "controller/base/daemon.h"
#include "controller/job/active_jobs.h"
#include "controller/job/job.h"
#include "controller/metrics/openmetrics.h"
#include "controller/metrics/tally.h"
#include "controller/nodes/fleet.h"
#include "controller/nodes/gpu_figures.h"
#include "controller/nodes/hosts.h"
#include "engine/base/field.h"

#define LABELS(...) ((struct openmetrics_labels){ .at = { __VA_ARGS__ } })
#define NO_LABELS ((struct openmetrics_labels){ .at = { { NULL, NULL } } })

struct page {
    struct openmetrics   m;
    struct daemon       *daemon;
    int64_t              now_ms;
};

static void single(struct page *p, const char *name, enum openmetrics_kind kind, const char *help, double value)
{
    openmetrics_family(&p->m, name, kind, help);
    openmetrics_sample(&p->m, NO_LABELS, value);
}

/* ---- all jobs ---- */

static void put_states(struct page *p)
{
    int64_t count[JOB_STATES] = { 0 }, held = 0;
    const struct active_jobs *jobs = p->daemon->active_jobs;
    for (size_t i = 0; i < jobs->count; i++) {
        const struct job_core *c = &jobs->jobs[i]->core;
        held += c->held;
        count[c->state] += !c->held;
    }
    openmetrics_family(&p->m, "jobctl_jobs", OPENMETRICS_GAUGE, "Jobs that are not done, by state.");
    for (int s = 0; s < JOB_STATES; s++)
        if (s != JOB_DONE)
            openmetrics_sample(&p->m, LABELS({ "state", job_state_name((enum job_state)s) }), (double)count[s]);
    openmetrics_sample(&p->m, LABELS({ "state", "held" }), (double)held);
}

static void put_ends(struct page *p, const struct tally *t)
{
    openmetrics_family(&p->m, "jobctl_jobs_done", OPENMETRICS_COUNTER,
                       "Jobs that ended since the daemon started, by result.");
    for (int r = RESULT_NONE + 1; r < RESULTS; r++)
        openmetrics_sample(&p->m, LABELS({ "result", job_result_name((enum job_result)r) }), (double)t->ended[r]);
}

static void put_causes(struct page *p, const char *name, const char *help, const int64_t counts[CAUSES])
{
    openmetrics_family(&p->m, name, OPENMETRICS_COUNTER, help);
    for (int c = CAUSE_NONE + 1; c < CAUSES; c++)
        openmetrics_sample(&p->m, LABELS({ "cause", cause_name((enum cause)c) }), (double)counts[c]);
}

static void put_goodput(struct page *p, struct tally *t)
{
    struct goodput live = { 0 }, one, sum;
    const struct active_jobs *jobs = p->daemon->active_jobs;
    for (size_t i = 0; i < jobs->count; i++) {
        job_core_spent(&one, &jobs->jobs[i]->core, p->now_ms);
        goodput_add(&live, &one);
    }
    tally_goodput(&sum, t, &live);
    openmetrics_family(&p->m, "jobctl_goodput_rank_seconds", OPENMETRICS_COUNTER,
                       "How ranks of all jobs spent their time; productive is the first computation of a step.");
    for (int b = 0; b < BUCKETS; b++)
        openmetrics_sample(&p->m, LABELS({ "bucket", bucket_name((enum bucket)b) }), (double)sum.ms[b] / 1000);
}

static void put_totals(struct page *p, struct tally *t)
{
    put_states(p);
    put_ends(p, t);
    single(p, "jobctl_attempts_started", OPENMETRICS_COUNTER, "Attempts started since the daemon started.",
           (double)t->started);
    put_causes(p, "jobctl_failures", "Failures of running jobs, by cause.", t->failures);
    put_causes(p, "jobctl_restarts", "Restarts after a failure, by the cause of the failure.", t->restarts);
    put_goodput(p, t);
    openmetrics_family(&p->m, "jobctl_queue_wait_seconds", OPENMETRICS_HISTOGRAM,
                       "Time from the submit of a job to its first start.");
    openmetrics_histogram(&p->m, NO_LABELS, &t->queued_s);
}

/* ---- jobs that have started ---- */

struct job_labels {
    char id[24];
    struct openmetrics_labels labels;
};

static void labels_of(struct job_labels *l, const struct job *job)
{
    snprintf(l->id, sizeof(l->id), "%lld", (long long)job->core.id);
    l->labels = LABELS({ "job_id", l->id }, { "name", job->spec.name });
}

static double per_ms(const struct job *job)
{
    return job->live_stats.step_ms / 1000;
}

static double step(const struct job *job)
{
    return job->core.step >= 0 ? (double)job->core.step : NAN;
}

static double steps(const struct job *job)
{
    return job->core.steps > 0 ? (double)job->core.steps : NAN;
}

static double loss(const struct job *job)
{
    return job->live_stats.loss;
}

static double learning_rate(const struct job *job)
{
    return job->live_stats.lr;
}

static double samples_per_s(const struct job *job)
{
    return job->live_stats.samples_per_s;
}

static double checkpoint_step(const struct job *job)
{
    return job->core.checkpoint >= 0 ? (double)job->core.checkpoint : NAN;
}

static double ranks(const struct job *job)
{
    return job->core.np > 0 ? (double)job->core.np : NAN;
}

static double generation(const struct job *job)
{
    return (double)job->core.generation;
}

static const struct {
    const char *name, *help;
    double    (*value)(const struct job *job);
} gauges[] = {
    { "jobctl_job_step", "The newest step.", step },
    { "jobctl_job_steps", "Total steps of the job.", steps },
    { "jobctl_job_checkpoint_step", "The step of the newest checkpoint.", checkpoint_step },
    { "jobctl_job_loss", "The newest training loss.", loss },
    { "jobctl_job_learning_rate", "The learning rate of the newest step.", learning_rate },
    { "jobctl_job_samples_per_second", "Samples per second, all ranks together.", samples_per_s },
    { "jobctl_job_last_step_seconds", "Duration of the newest step.", per_ms },
    { "jobctl_job_ranks", "Ranks of the newest generation.", ranks },
    { "jobctl_job_generation", "Number of the newest generation; it grows with each restart of the ranks.",
      generation },
};

static void put_gauge(struct page *p, int g)
{
    const struct active_jobs *jobs = p->daemon->active_jobs;
    openmetrics_family(&p->m, gauges[g].name, OPENMETRICS_GAUGE, gauges[g].help);
    for (size_t i = 0; i < jobs->begun.count; i++) {
        const struct job *job = active_jobs_begun(jobs, i);
        struct job_labels l;
        labels_of(&l, job);
        openmetrics_sample(&p->m, l.labels, gauges[g].value(job));
    }
}

static void put_job_states(struct page *p)
{
    const struct active_jobs *jobs = p->daemon->active_jobs;
    openmetrics_family(&p->m, "jobctl_job_state", OPENMETRICS_GAUGE, "1 for the present state of a started job.");
    for (size_t i = 0; i < jobs->begun.count; i++) {
        const struct job *job = active_jobs_begun(jobs, i);
        struct job_labels l;
        labels_of(&l, job);
        l.labels.at[2] = (struct openmetrics_label){ "state", job_state_name(job->core.state) };
        openmetrics_sample(&p->m, l.labels, 1);
    }
}

static void put_job_goodput(struct page *p)
{
    const struct active_jobs *jobs = p->daemon->active_jobs;
    openmetrics_family(&p->m, "jobctl_job_goodput_rank_seconds", OPENMETRICS_GAUGE,
                       "How the ranks of a job spent their time so far.");
    for (size_t i = 0; i < jobs->begun.count; i++) {
        const struct job *job = active_jobs_begun(jobs, i);
        struct job_labels l;
        struct goodput spent;
        labels_of(&l, job);
        job_spent(&spent, job, p->now_ms);
        for (int b = 0; b < BUCKETS; b++) {
            l.labels.at[2] = (struct openmetrics_label){ "bucket", bucket_name((enum bucket)b) };
            openmetrics_sample(&p->m, l.labels, (double)spent.ms[b] / 1000);
        }
    }
}

static void put_step_times(struct page *p, const struct tally *t)
{
    const struct active_jobs *jobs = p->daemon->active_jobs;
    openmetrics_family(&p->m, "jobctl_job_step_seconds", OPENMETRICS_HISTOGRAM, "Durations of the steps of a job.");
    for (size_t i = 0; i < jobs->begun.count; i++) {
        const struct job *job = active_jobs_begun(jobs, i);
        const struct tally_job *counted = tally_job(t, job->core.id);
        struct job_labels l;
        labels_of(&l, job);
        if (counted && counted->step >= 0)
            openmetrics_histogram(&p->m, l.labels, &counted->step_s);
    }
}

/* ---- nodes and the daemon ---- */

/* Of "now" (agent/probe/gpu_load.h); `scale`: from its unit to that of the metric. */
static const struct gpu_gauge {
    const char *name, *help, *key;
    double      scale;
} gpu_gauges[] = {
    { "jobctl_gpu_utilization_ratio", "Share of the last second or less in which the GPU was busy.", "load", 0.01 },
    { "jobctl_gpu_memory_used_bytes", "Memory of the GPU in use.", "memory_used_bytes", 1 },
    { "jobctl_gpu_memory_bytes", "Memory of the GPU.", "memory_bytes", 1 },
    { "jobctl_gpu_temperature_celsius", "Temperature of the GPU.", "celsius", 1 },
    { "jobctl_gpu_power_watts", "Power that the GPU draws.", "watts", 1 },
    { "jobctl_gpu_lost", "1 for a GPU that has fallen off the bus.", "lost", 1 },
};

static double gpu_value(const json_t *now, const char *key)
{
    const json_t *v = json_object_get(now, key);
    return json_is_boolean(v) ? json_is_true(v) : json_is_number(v) ? json_number_value(v) : NAN;
}

/* `gauge`: NULL for jobctl_gpu_info. `now`: its line of agent/probe/gpu_load.h, or NULL. */
static void put_gpu(struct page *p, const struct gpu_gauge *gauge, const char *node, const json_t *gpu,
                    const json_t *now)
{
    char index[24];
    snprintf(index, sizeof(index), "%lld", (long long)field_int(gpu, "index", 0));
    struct openmetrics_labels labels = LABELS({ "node", node }, { "index", index }, { "uuid", field_text(gpu, "uuid") });
    if (!gauge)
        labels.at[3] = (struct openmetrics_label){ "model", field_text(gpu, "name") };
    openmetrics_sample(&p->m, labels, gauge ? gpu_value(now, gauge->key) * gauge->scale : 1);
}

/* An agent that is reached as on another machine may run on this one. */
static bool is_here(const struct page *p, const char *uuid)
{
    const json_t *list = json_object_get(p->daemon->fleet->facts, "gpus"), *gpu;
    size_t i;
    json_array_foreach (list, i, gpu)
        if (strcmp(field_text(gpu, "uuid"), uuid) == 0)
            return true;
    return false;
}

static void put_each_gpu(struct page *p, const struct gpu_gauge *gauge)
{
    const struct fleet *f = p->daemon->fleet;
    const json_t *list = json_object_get(f->facts, "gpus"), *gpu;
    json_t *elsewhere = (json_t *)(uintptr_t)gpu_figures_elsewhere(p->daemon), *gpus;
    const char *node;
    size_t i;
    json_array_foreach (list, i, gpu)
        put_gpu(p, gauge, f->node, gpu, gpu_figures_of(p->daemon, field_text(gpu, "uuid")));
    json_object_foreach (elsewhere, node, gpus)
        json_array_foreach (gpus, i, gpu)
            if (!is_here(p, field_text(gpu, "uuid")))
                put_gpu(p, gauge, node, gpu, gpu);
}

static void put_gpus(struct page *p)
{
    gpu_figures_want(p->daemon, GPU_FIGURES_SCRAPE_MS);
    openmetrics_family(&p->m, "jobctl_gpu", OPENMETRICS_INFO,
                       "A GPU of this machine, or of another one on which a job runs.");
    put_each_gpu(p, NULL);
    for (size_t g = 0; g < sizeof(gpu_gauges) / sizeof(gpu_gauges[0]); g++) {
        openmetrics_family(&p->m, gpu_gauges[g].name, OPENMETRICS_GAUGE, gpu_gauges[g].help);
        put_each_gpu(p, &gpu_gauges[g]);
    }
}

static void put_node(struct page *p)
{
    int64_t cpus, gpus;
    fleet_free(p->daemon, &cpus, &gpus);
    single(p, "jobctl_cpu_slots", OPENMETRICS_GAUGE, "CPU slots of this machine.", (double)p->daemon->machine.cpus);
    single(p, "jobctl_cpu_slots_free", OPENMETRICS_GAUGE, "CPU slots that no job holds.", (double)cpus);
    single(p, "jobctl_gpus", OPENMETRICS_GAUGE, "GPUs of this machine.", (double)p->daemon->machine.gpus);
    single(p, "jobctl_gpus_free", OPENMETRICS_GAUGE, "GPUs that no job holds.", (double)gpus);
    put_gpus(p);
}

static void put_hosts(struct page *p)
{
    json_t *hosts = json_array(), *host;
    size_t i;
    hosts_list(p->daemon, hosts);
    openmetrics_family(&p->m, "jobctl_host_state", OPENMETRICS_GAUGE, "1 for the present state of a known host.");
    json_array_foreach (hosts, i, host)
        openmetrics_sample(&p->m, LABELS({ "host", field_text(host, "name") }, { "state", field_text(host, "state") }),
                           1);
    json_decref(hosts);
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void put_process(struct page *p)
{
    struct rusage use;
    size_t resident = 0;
    getrusage(RUSAGE_SELF, &use);
    uv_resident_set_memory(&resident);
    single(p, "process_cpu_seconds", OPENMETRICS_COUNTER, "CPU time of the daemon.",
           seconds(use.ru_utime) + seconds(use.ru_stime));
    single(p, "process_resident_memory_bytes", OPENMETRICS_GAUGE, "Memory of the daemon.", (double)resident);
    single(p, "process_start_time_seconds", OPENMETRICS_GAUGE, "Start of the daemon, since 1970.",
           (double)p->daemon->started_ms / 1000);
}

static void put_daemon(struct page *p)
{
    openmetrics_family(&p->m, "jobctl_build", OPENMETRICS_INFO, "The version of the daemon.");
    openmetrics_sample(&p->m, LABELS({ "version", JOBCTL_VERSION }), 1);
    single(p, "jobctl_scheduler_pass_seconds", OPENMETRICS_GAUGE, "Duration of the newest pass over the queue.",
           (double)p->daemon->fleet->cost_us / 1e6);
    single(p, "jobctl_store_writable", OPENMETRICS_GAUGE, "0 while the store does not take events, such as on a full "
           "disk.", p->daemon->store_state.errnum == 0);
    put_process(p);
}

char *exposition_make(struct daemon *d, bool prometheus)
{
    struct page p = { .m = { .prometheus = prometheus }, .daemon = d, .now_ms = daemon_now_ms() };
    put_totals(&p, d->tally);
    put_job_states(&p);
    for (int g = 0; g < (int)(sizeof(gauges) / sizeof(gauges[0])); g++)
        put_gauge(&p, g);
    put_job_goodput(&p);
    put_step_times(&p, d->tally);
    put_node(&p);
    put_hosts(&p);
    put_daemon(&p);
    return openmetrics_end(&p.m);
}
