/* SPDX-License-Identifier: Apache-2.0 */
/* socket_fixture.h - a server around the soft transport, in a thread of this process. */
#ifndef SOCKET_FIXTURE_H
#define SOCKET_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>
#include "presil_serve.h"

typedef struct {
    char path[96], spec[128]; /* spec: "socket:PATH" */
    char log[8192];
    volatile int stop;
    int status; /* of presil_serve_transport */
    presil_server *server;
    pthread_t thread;
    bool running;
} soft_server;

const presil_transport_ops *soft_ops(void); /* of PRESIL_SOFT_LIBRARY */

/* A path of its own for each call; removed by soft_server_stop. */
void soft_server_name(soft_server *s);
void soft_server_start(soft_server *s, bool copy_memory); /* at s->path */
void soft_server_stop(soft_server *s);                    /* and joins */

#endif
