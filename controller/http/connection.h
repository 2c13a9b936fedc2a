/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h - the connections of a listener whose client has no whole request there, and when they end
 *
 * libmicrohttpd has one limit for everything, IDLE_S, and does not see that a client is gone whose last bytes came
 * together with its end. So a client that opens connections and says little would keep others away.
 */
#ifndef CONTROLLER_HTTP_CONNECTION_H
#define CONTROLLER_HTTP_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

enum { REQUEST_S = 10, IDLE_S = 300 };

enum connection_phase {
    CONNECTION_ASKING,  /* a request has begun, or none has yet: its next part is due within REQUEST_S */
    CONNECTION_BUSY,    /* the request is whole and is being answered: no limit here */
    CONNECTION_KEPT     /* answered, and kept for another request */
};

struct connection {
    int                   fd;
    enum connection_phase phase;
    int64_t               since_ms;     /* in this phase; of a request: its last part */
    bool                  gone;         /* the client had closed it at the last look, and nothing was left to read */
    struct connection    *next;
};

struct connections {
    struct connection *first;
    unsigned           count;
    int64_t            looked_ms;
};

/* NULL: no memory. */
struct connection *connection_open(struct connections *all, int fd);
void connection_close(struct connections *all, struct connection *c);   /* forgets it; the descriptor is libmicrohttpd's */
void connection_enter(struct connection *c, enum connection_phase phase);   /* again: another part has come */

/* Ends those whose clients are gone or late, and with `most` open the oldest that is not busy: libmicrohttpd then finds
 * them closed. Looks once a second, and at once with `most` open. True: one has ended. */
bool connection_sweep(struct connections *all, unsigned most);

#endif
