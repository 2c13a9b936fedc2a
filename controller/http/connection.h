/* SPDX-License-Identifier: Apache-2.0 */
/* connection.h - closes connections whose clients have not sent a whole request in time
 *
 * libmicrohttpd has one limit for everything, IDLE_S, and does not notice a client whose last bytes arrived together
 * with its end. So a client that opens many connections and sends little would keep others out.
 */
#ifndef CONTROLLER_HTTP_CONNECTION_H
#define CONTROLLER_HTTP_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

enum { REQUEST_S = 10, IDLE_S = 300 };

enum connection_phase {
    CONNECTION_ASKING,  /* a request has begun, or none has yet: its next part is due within REQUEST_S */
    CONNECTION_BUSY,    /* the request is complete and is being answered: no limit here */
    CONNECTION_KEPT     /* answered, and kept open for another request */
};

struct connection {
    int                   fd;
    enum connection_phase phase;
    int64_t               since_ms;     /* start of this phase; of a request: the time of its last part */
    bool                  gone;         /* at the last check the client had closed it, and nothing was left to read */
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
void connection_enter(struct connection *c, enum connection_phase phase);   /* again: another part has arrived */

/* Closes those whose clients are gone or late, and if `most` are open the oldest idle one, so that libmicrohttpd
 * finds them closed. Checks once a second, and at once if `most` are open. True: one was closed. */
bool connection_sweep(struct connections *all, unsigned most);

#endif
