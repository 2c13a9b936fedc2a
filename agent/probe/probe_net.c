/* SPDX-License-Identifier: Apache-2.0 */
/* probe_net.c - network interfaces and the routes over them; RDMA devices and their ports */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/os/sysroot.h"
#include "agent/probe/probe.h"
#include "engine/base/json_make.h"

/* --- interfaces ---------------------------------------------------------------------------- */

/* What is read once for all interfaces: each reading costs the kernel a walk over its tables. */
struct interfaces {
    json_t         *out;
    struct ifaddrs *addresses; /* NULL: none, as in a recording */
    char            gateways[16][64]; /* the interfaces of default routes */
    int             ngateways;
};

static void read_gateways(struct interfaces *all)
{
    char path[4096], line[256];
    unsigned long destination, gateway, flags;
    const int room = sizeof(all->gateways) / sizeof(all->gateways[0]);
    sysroot_path(path, sizeof(path), "/proc/net/route");
    FILE *f = fopen(path, "re");
    while (f && all->ngateways < room && fgets(line, sizeof(line), f)) {
        char *iface = all->gateways[all->ngateways];
        if (sscanf(line, "%63s %lx %lx %lx", iface, &destination, &gateway, &flags) == 4 && destination == 0 &&
            gateway != 0)
            all->ngateways++;
    }
    if (f)
        fclose(f);
}

static bool is_default_route(const struct interfaces *all, const char *name)
{
    for (int i = 0; i < all->ngateways; i++)
        if (strcmp(all->gateways[i], name) == 0)
            return true;
    return false;
}

/* Is it a physical device, not a bridge or a tunnel? */
static bool has_device(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "/sys/class/net/%.64s/device", name);
    return sysroot_has(path);
}

static json_t *speed(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "/sys/class/net/%.64s/speed", name);
    int64_t mbps = sysroot_number(path); /* -1 also if the driver does not know */
    return mbps > 0 ? json_integer((json_int_t)mbps) : json_null();
}

static bool is_up(const char *name)
{
    char path[256], state[32];
    snprintf(path, sizeof(path), "/sys/class/net/%.64s/operstate", name);
    sysroot_line(state, sizeof(state), path);
    return strcmp(state, "up") == 0 || strcmp(state, "unknown") == 0;
}

static json_t *addresses(const struct interfaces *all, const char *name)
{
    json_t *out = json_array();
    for (const struct ifaddrs *i = all->addresses; i; i = i->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "";
        if (!i->ifa_addr || strcmp(i->ifa_name, name) != 0)
            continue;
        if (i->ifa_addr->sa_family == AF_INET)
            inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, text, sizeof(text));
        else if (i->ifa_addr->sa_family == AF_INET6)
            inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr, text,
                      sizeof(text));
        if (text[0])
            json_array_append_new(out, json_text(text));
    }
    return out;
}

static bool add_interface(void *arg, const char *name)
{
    const struct interfaces *all = arg;
    if (strcmp(name, "lo") != 0)
        json_array_append_new(
            all->out, json_make("{s:s, s:b, s:b, s:b, s:o, s:o}", "name", name, "up", (int)is_up(name),
                           "default_route", (int)is_default_route(all, name), "device",
                           (int)has_device(name), "speed_mbps", speed(name), "addresses",
                           addresses(all, name)));
    return true;
}

static json_t *interfaces(void)
{
    struct interfaces all = {.out = json_array()};
    read_gateways(&all);
    if (!sysroot_replayed() && getifaddrs(&all.addresses) < 0)
        all.addresses = NULL;
    sysroot_each("/sys/class/net", add_interface, &all);
    if (all.addresses)
        freeifaddrs(all.addresses);
    return all.out;
}

/* --- routes -------------------------------------------------------------------------------- */

/* /proc/net/route has a header, then: name, destination, gateway, flags, -, -, metric, mask.
 * Numbers are hexadecimal in network byte order, except the metric. */
static json_t *routes(void)
{
    enum { UP = 1, REJECT = 0x200 };
    char path[4096], line[256], iface[64], to[INET_ADDRSTRLEN];
    unsigned destination, flags, mask;
    int metric;
    json_t *out = json_array();
    sysroot_path(path, sizeof(path), "/proc/net/route");
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        const int n = sscanf(line, "%63s %x %*x %x %*d %*d %d %x", iface, &destination, &flags, &metric, &mask);
        if (n < 5 || !(flags & UP) || (flags & REJECT) ||
            !inet_ntop(AF_INET, &(struct in_addr){.s_addr = destination}, to, sizeof(to)))
            continue;
        json_array_append_new(out, json_make("{s:o, s:s, s:i}", "to",
                                             json_text_f("%s/%d", to, __builtin_popcount(mask)),
                                             "interface", iface, "metric", metric));
    }
    if (f)
        fclose(f);
    return out;
}

/* --- RDMA ---------------------------------------------------------------------------------- */

struct rdma_device {
    json_t     *out;
    const char *name;
};

/* "4: ACTIVE" to "active"; "400 Gb/sec (4X NDR)" to 400. */
static bool add_port(void *arg, const char *port)
{
    const struct rdma_device *d = arg;
    char path[256], state[64], link[64], vendor[32];
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%.16s/state", d->name, port);
    sysroot_line(state, sizeof(state), path);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%.16s/link_layer", d->name, port);
    sysroot_line(link, sizeof(link), path);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports/%.16s/rate", d->name, port);
    int64_t rate = sysroot_number(path);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/device/vendor", d->name);
    sysroot_line(vendor, sizeof(vendor), path);
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/device/numa_node", d->name);
    int64_t numa = sysroot_number(path);
    json_array_append_new(
        d->out,
        json_make("{s:s, s:i, s:b, s:s, s:o, s:s, s:o}", "name", d->name, "port", atoi(port),
                  "active", strstr(state, "ACTIVE") != NULL, "link",
                  strcmp(link, "Ethernet") == 0     ? "ethernet"
                  : strcmp(link, "InfiniBand") == 0 ? "infiniband"
                                                    : "unknown",
                  "rate_gbps", rate > 0 ? json_integer((json_int_t)rate) : json_null(), "vendor",
                  vendor, "numa", numa < 0 ? json_null() : json_integer((json_int_t)numa)));
    return true;
}

static bool add_device(void *arg, const char *name)
{
    char path[256];
    struct rdma_device d = {.out = arg, .name = name};
    snprintf(path, sizeof(path), "/sys/class/infiniband/%.64s/ports", name);
    sysroot_each(path, add_port, &d);
    return true;
}

/* --- software for cloud networks ---------------------------------------------------------- */

/* These packages bring the NCCL settings for their networks, which change with every release. */
static json_t *fabric_software(void)
{
    static const struct {
        const char *name, *path;
    } known[] = {
        {"gcp-gib", "/usr/local/gib"},
        {"gcp-fastrak", "/var/lib/tcpxo"},
        {"gcp-tcpx", "/var/lib/tcpx"},
        {"aws-efa", "/opt/amazon/efa"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (sysroot_has(known[i].path))
            return json_text(known[i].name);
    return json_null();
}

int probe_net(json_t *facts)
{
    json_t *rdma = json_array();
    sysroot_each("/sys/class/infiniband", add_device, rdma);
    json_object_set_new(facts, "net", interfaces());
    json_object_set_new(facts, "routes", routes());
    json_object_set_new(facts, "rdma", rdma);
    json_object_set_new(facts, "fabric_software", fabric_software());
    return json_object_set_new(facts, "peermem", json_boolean(sysroot_has(
                                                     "/sys/module/nvidia_peermem")));
}
