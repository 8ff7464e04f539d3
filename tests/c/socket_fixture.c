/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "socket_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

const presil_transport_ops *soft_ops(void) {
    const char *path = getenv("PRESIL_SOFT_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *entry = library ? dlsym(library, "presil_transport_entry") : NULL;
    if (!entry) fail_msg("PRESIL_SOFT_LIBRARY=%s is no transport", path ? path : "");
    presil_transport_entry_fn function;
    memcpy(&function, &entry, sizeof function);
    return function();
}

void soft_server_name(soft_server *s) {
    static int number;
    memset(s, 0, sizeof *s);
    (void)snprintf(s->path, sizeof s->path, "/tmp/presil-test-%d-%d", (int)getpid(), number++);
    (void)snprintf(s->spec, sizeof s->spec, "socket:%s", s->path);
}

static void on_log(void *context, const char *text) {
    soft_server *s = context;
    const size_t used = strlen(s->log);
    (void)snprintf(s->log + used, sizeof s->log - used, "%s\n", text);
}

static void *run(void *context) {
    soft_server *s = context;
    s->status = presil_serve_transport(s->server, soft_ops());
    return NULL;
}

void soft_server_start(soft_server *s, bool copy_memory) {
    char error[256] = "";
    s->stop = 0;
    const presil_serve_options options = {.size = sizeof options,
                                          .copy_memory = copy_memory,
                                          .path = s->path,
                                          .stop = &s->stop,
                                          .log = on_log,
                                          .log_context = s};
    if (presil_serve_open(&options, &s->server, error, sizeof error)) fail_msg("presil_serve_open: %s", error);
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
    s->running = true;
}

void soft_server_stop(soft_server *s) {
    if (!s->running) return;
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(s->thread, NULL), 0);
    presil_serve_close(s->server);
    s->running = false;
    assert_int_equal(s->status, 0);
}
