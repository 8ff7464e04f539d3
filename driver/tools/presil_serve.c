/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil-serve: offers a simulator library (or any other transport of presil_transport.h) to another process, through a
 * socket (docs/transport-protocol.md). usage: presil-serve PATH --library LIBRARY.so [--copy] [--once] [--quiet]
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "presil_serve.h"

static const char usage[] = "usage: presil-serve PATH --library LIBRARY.so [--copy] [--once] [--quiet]\n"
                            "  PATH        of the socket, at most 107 bytes; clients use it as socket:PATH\n"
                            "  --library   a transport: libpresil_sim_base_fast.so, ...\n"
                            "  --copy      memory travels in messages, although both sides could map it\n"
                            "  --once      ends when the first client has gone\n"
                            "  --quiet     says nothing about clients that come and go\n";

static volatile int stop;

static void on_signal(int number) { stop = number; }

static void on_log(void *context, const char *text) {
    (void)context;
    (void)fprintf(stderr, "presil-serve: %s\n", text);
}

static const presil_transport_ops *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, "presil_transport_entry") : NULL;
    if (!entry) {
        (void)fprintf(stderr, "presil-serve: %s is no transport library: %s\n", path, dlerror());
        return NULL;
    }
    presil_transport_entry_fn function;
    memcpy(&function, &entry, sizeof function); /* ISO C has no cast from object to function pointers */
    return function();
}

static int serve(const presil_serve_options *options, const presil_transport_ops *ops) {
    char error[512] = "";
    presil_server *server = NULL;
    if (presil_serve_open(options, &server, error, sizeof error)) {
        (void)fprintf(stderr, "presil-serve: %s\n", error);
        return 1;
    }
    if (options->log) (void)fprintf(stderr, "presil-serve: PRESIL_TRANSPORT=socket:%s\n", options->path);
    const int status = presil_serve_transport(server, ops);
    if (status) (void)fprintf(stderr, "presil-serve: %s\n", presil_serve_error_text(server));
    presil_serve_close(server);
    return status != 0;
}

int main(int argc, char **argv) {
    presil_serve_options options = {.size = sizeof options, .stop = &stop, .log = on_log};
    const char *library = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--library") && i + 1 < argc)
            library = argv[++i];
        else if (!strcmp(argv[i], "--copy"))
            options.copy_memory = 1;
        else if (!strcmp(argv[i], "--once"))
            options.once = 1;
        else if (!strcmp(argv[i], "--quiet"))
            options.log = NULL;
        else if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
            return fputs(usage, stdout) < 0;
        else if (*argv[i] != '-' && !options.path)
            options.path = argv[i];
        else
            return (void)fprintf(stderr, "presil-serve: what is %s?\n%s", argv[i], usage), 2;
    }
    if (!options.path || !library) return (void)fputs(usage, stderr), 2;
    const presil_transport_ops *ops = load(library);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    return ops ? serve(&options, ops) : 1;
}
