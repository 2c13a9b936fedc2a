/* SPDX-License-Identifier: Apache-2.0 */
/* fleet_probe.c - see fleet_probe.h */
#include "controller/nodes/fleet_probe.h"

#include <signal.h>
#include <stdlib.h>

#include "agent/os/log.h"
#include "agent/os/subprocess.h"
#include "controller/base/daemon.h"
#include "controller/nodes/fleet.h"
#include "controller/remote/remote.h"
#include "engine/base/err.h"
#include "engine/contract/install.h"

enum { PATIENCE_MS = 15000 };

struct fleet_probe {
    struct daemon     *daemon;
    fleet_probe_fn     told;
    struct subprocess *process;
};

static void on_end(void *arg, const struct subprocess_end *e)
{
    struct fleet_probe *p = arg;
    json_t *facts = json_loadb(subprocess_text(e->out), e->out->size, 0, NULL);
    if (e->timed_out)
        log_warn(NULL, "the probe of this node timed out after %d s", PATIENCE_MS / 1000);
    if (!json_is_object(facts)) {
        log_warn(NULL, "probing this node failed; its GPUs are not used");
        json_decref(facts);
        facts = json_object();
    }
    p->told(p->daemon, facts);
    free(p);
}

struct fleet_probe *fleet_probe_open(struct daemon *d, fleet_probe_fn told)
{
    char program[PATH_MAX];
    struct err err = {0};
    struct fleet_probe *p = calloc(1, sizeof(*p));
    install_path(program, sizeof(program), "jobctl-agent");
    const struct subprocess_spec s = {.argv = (const char *const[]){program, "probe", d->home.path, NULL},
                                      .out = SUBPROCESS_PIPE};
    const struct subprocess_hooks hooks = {.ended = on_end, .arg = p};
    if (p)
        *p = (struct fleet_probe){.daemon = d, .told = told};
    if (p && subprocess_open(&p->process, &d->loop, &s, PATIENCE_MS, &hooks, &err) == 0)
        return p;
    log_warn(NULL, "cannot probe this node, so its GPUs are not used: %s", p ? err.text : "no memory");
    free(p);
    told(d, json_object());
    return NULL;
}

void fleet_probe_close(struct fleet_probe *p)
{
    if (!p)
        return;
    subprocess_close(&p->process, SIGKILL);
    free(p);
}
