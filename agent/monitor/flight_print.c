/* SPDX-License-Identifier: Apache-2.0 */
/* flight_print.c - see flight_print.h */
#include "agent/monitor/flight_print.h"

#include <inttypes.h>

#include "engine/base/clock.h"
#include "engine/base/err.h"
#include "engine/contract/flight.h"

enum { LAST_ENTRIES = 16 };

static void print_hist(FILE *out, const char *name, const uint64_t hist[FLIGHT_BINS])
{
    uint64_t n = 0;
    for (int i = 0; i < FLIGHT_BINS; i++)
        n += hist[i];
    if (n)
        fprintf(out, "  %-11s %8" PRIu64 "  p50 <= %10.3f ms  p99 <= %10.3f ms\n", name, n,
                (double)flight_quantile_ns(hist, 0.5) / 1e6, (double)flight_quantile_ns(hist, 0.99) / 1e6);
}

static void print_ring(FILE *out, const struct flight_page *p)
{
    uint64_t next = p->ring_next ? p->ring_next : 1;
    uint64_t first = next > LAST_ENTRIES ? next - LAST_ENTRIES : 1;
    for (uint64_t seq = first; seq < next; seq++) {
        const struct flight_entry *e = NULL;
        for (int i = 0; i < FLIGHT_RING && !e; i++)
            if (p->ring[i].seq == seq)
                e = &p->ring[i];
        if (e)
            fprintf(out, "  %9.3f s ago  step %" PRIu64 "  %s  %" PRIu64 "\n", clock_ago_s(e->at_ns),
                    e->step_phase >> 8, flight_phase_name((enum flight_phase)(e->step_phase & 0xFF)), e->value);
    }
}

int flight_print(FILE *out, const char *path, struct err *err)
{
    struct flight *f;
    static struct flight_page p;
    if (flight_open(&f, path, err) < 0)
        return -1;
    flight_read(f, &p);
    flight_close(f);
    fprintf(out, "rank %" PRIu64 " of %" PRIu64 ", generation %" PRIu64, p.rank, p.world_size, p.generation);
    if (!p.pid) {
        fprintf(out, ": no process attached\n");
        return 0;
    }
    fprintf(out, ", pid %" PRIu64 ", attached %.3f s ago\n", p.pid, clock_ago_s(p.attached_ns));
    fprintf(out, "step %" PRIu64 " of %" PRIu64 ", phase %s for %.3f s", flight_step(&p),
            p.steps_total, flight_phase_name(flight_phase_of(&p)), clock_ago_s(p.phase_start_ns));
    if (p.phase_total)
        fprintf(out, ", %" PRIu64 " of %" PRIu64 " done", p.phase_done, p.phase_total);
    fprintf(out, "\ncollectives: %" PRIu64 " started, %" PRIu64 " completed", p.coll_seq, p.coll_done_seq);
    fprintf(out, ", %.3f s spent waiting in them\n", (double)p.wait_ns / 1e9);
    fprintf(out, "times:\n");
    print_hist(out, "step", p.step_hist);
    for (int i = 0; i < FLIGHT_PHASES; i++)
        print_hist(out, flight_phase_name((enum flight_phase)i), p.phase_hist[i]);
    fprintf(out, "last events:\n");
    print_ring(out, &p);
    return 0;
}
