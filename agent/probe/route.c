/* SPDX-License-Identifier: Apache-2.0 */
/* route.c - see route.h */
#include "agent/probe/route.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct net {
    uint32_t address;
    int      bits;
};

/* "10.0.0.0/24" */
static bool parse(struct net *out, const char *text)
{
    char address[INET_ADDRSTRLEN];
    struct in_addr in;
    const char *slash = text ? strchr(text, '/') : NULL;
    if (!slash || (size_t)(slash - text) >= sizeof(address))
        return false;
    snprintf(address, sizeof(address), "%.*s", (int)(slash - text), text);
    out->bits = atoi(slash + 1);
    if (inet_pton(AF_INET, address, &in) != 1 || out->bits < 0 || out->bits > 32)
        return false;
    out->address = ntohl(in.s_addr);
    return true;
}

static bool holds(const struct net *n, uint32_t address)
{
    const uint32_t mask = n->bits == 0 ? 0 : ~(uint32_t)0 << (32 - n->bits);
    return (n->address & mask) == (address & mask);
}

const char *route_interface(const json_t *facts, const char *address)
{
    size_t i;
    const json_t *row, *best = NULL;
    int most = -1;
    json_int_t least = 0;
    struct in_addr in;
    if (!address || inet_pton(AF_INET, address, &in) != 1)
        return NULL;
    json_array_foreach(json_object_get(facts, "routes"), i, row)
    {
        struct net n;
        const json_int_t metric = json_integer_value(json_object_get(row, "metric"));
        if (!parse(&n, json_string_value(json_object_get(row, "to"))) ||
            !holds(&n, ntohl(in.s_addr)) || n.bits < most || (n.bits == most && metric >= least))
            continue;
        best = row;
        most = n.bits;
        least = metric;
    }
    return json_string_value(json_object_get(best, "interface"));
}
