/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding simulator and chip libraries. They stay loaded until the process ends: C++ runtimes leave thread-local
 * destructors behind, which must not outlive their code.
 */
#define _GNU_SOURCE
#include "library.h"
#include "choose_transport.h"
#include "device.h"
#include "fail.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* The directory of this library (or of the program, if it is linked statically). */
static void own_directory(char *out, size_t bytes) {
    Dl_info info;
    out[0] = 0;
    if (dladdr((const void *)(uintptr_t)&presil_device_open, &info) && info.dli_fname)
        (void)snprintf(out, bytes, "%s", info.dli_fname);
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
    else
        (void)snprintf(out, bytes, ".");
}

static bool is_there(const char *directory, size_t length, const char *name, char *path) {
    if (length == 0) return false;
    const int n = snprintf(path, PATH_BYTES, "%.*s/%s", (int)length, directory, name);
    return n > 0 && n < PATH_BYTES && access(path, R_OK) == 0;
}

/* PRESIL_LIBRARY_PATH (directories separated by colons), then beside libpresil (or the program that has it inside),
 * then its lib/, ../lib/ and ...; until look() says true. */
static bool each_place(bool (*look)(void *context, const char *folder, size_t length), void *context) {
    for (const char *at = getenv("PRESIL_LIBRARY_PATH"); at && *at;) {
        const size_t length = strcspn(at, ":");
        if (look(context, at, length)) return true;
        at += length + (at[length] == ':');
    }
    static const char *const below[] = {"", "/lib", "/../lib", "/.."};
    char own[PATH_BYTES - 8], folder[PATH_BYTES];
    own_directory(own, sizeof own);
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        (void)snprintf(folder, sizeof folder, "%s%s", own, below[i]);
        if (look(context, folder, strlen(folder))) return true;
    }
    return false;
}

typedef struct {
    const char *name;
    char *path;
} wanted_file;

static bool look_for_file(void *context, const char *folder, size_t length) {
    const wanted_file *wanted = context;
    return is_there(folder, length, wanted->name, wanted->path);
}

static int find_library(const char *name, char *path) {
    char own[PATH_BYTES - 8];
    if (each_place(look_for_file, &(wanted_file){name, path})) return PRESIL_OK;
    const char *places = getenv("PRESIL_LIBRARY_PATH");
    own_directory(own, sizeof own);
    return presil_fail(PRESIL_ENODEV,
                       "%s is neither in PRESIL_LIBRARY_PATH (%.150s) nor in %.150s: build it (cmake target %.*s), or "
                       "choose another chip or build",
                       name, places ? places : "not set", own, (int)(strlen(name) - 6), name + 3);
}

static int load(const char *path, const char *symbol, void **entry) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *text = dlerror();
        if (!strstr(text, "ISA level")) return presil_fail(PRESIL_ENODEV, "can't load %s: %s", path, text);
        return presil_fail(PRESIL_ENODEV,
                           "can't load %.200s: it was built for a processor that has instructions which this one "
                           "lacks: build it on this machine ('./presil build', "
                           "or 'python -m torch_presil.simulators'), or use mode 'model'",
                           path);
    }
    *entry = dlsym(library, symbol);
    if (!*entry) {
        (void)dlclose(library);
        return presil_fail(PRESIL_ENODEV, "%s has no %s: it is not a library for Presil", path, symbol);
    }
    return PRESIL_OK;
}

/* A copy of what a transport offers. A table that ends earlier than ours lacks functions that came later. */
static int take_table(const presil_transport_ops *ops, const char *path, presil_transport_ops *out) {
    enum { LEAST = offsetof(presil_transport_ops, reset) + sizeof ops->reset };
    if (!ops || ops->abi != PRESIL_TRANSPORT_ABI || ops->size < LEAST)
        return presil_fail(PRESIL_ENODEV, "%s: transport ABI %u expected, %u found: rebuild it", path,
                           PRESIL_TRANSPORT_ABI, ops ? ops->abi : 0);
    *out = (presil_transport_ops){0};
    memcpy(out, ops, ops->size < sizeof *out ? ops->size : sizeof *out);
    const char *missing = presil_transport_missing(out, 0);
    return missing ? presil_fail(PRESIL_ENODEV,
                                 "%s: its transport has no %s(), which every transport must have (presil_transport.h)",
                                 path, missing)
                   : PRESIL_OK;
}

int presil_library_transport(const presil_device *device, presil_transport_ops *out) {
    const presil_transport_ops *remote = presil_transport_remote_ops(device);
    if (remote) return take_table(remote, device->transport_spec, out);
    char name[128], found[PATH_BYTES];
    const char *path = device->library_path;
    if (!path) {
        (void)snprintf(name, sizeof name, "libpresil_sim_%s_%s.so", device->config, device->build);
        const int status = find_library(name, found);
        if (status) return status;
        path = found;
    }
    void *entry = NULL;
    const int status = load(path, "presil_transport_entry", &entry);
    if (status) return status;
    presil_transport_entry_fn function;
    memcpy(&function, &entry, sizeof function); /* ISO C has no cast from object to function pointers */
    return take_table(function(), path, out);
}

/* The function that every chip must have and this one has not; NULL: it has all. */
static const char *chip_missing(const presil_chip_ops *ops) {
    return !ops->create                                       ? "create"
           : !ops->destroy                                    ? "destroy"
           : !ops->limits                                     ? "limits"
           : !ops->info                                       ? "info"
           : !ops->probe                                      ? "probe"
           : !ops->reset                                      ? "reset"
           : !ops->plan                                       ? "plan"
           : !ops->plan_info                                  ? "plan_info"
           : !ops->plan_free                                  ? "plan_free"
           : !ops->submit                                     ? "submit"
           : !ops->service                                    ? "service"
           : ops->layout && (!ops->pack || !ops->layout_free) ? "pack and layout_free, but has layout"
           : ops->activation && (!ops->pack_activation || !ops->unpack_activation)
               ? "pack_activation and unpack_activation, but has activation"
               : NULL;
}

/* A copy of a chip's table. One that ends earlier than ours lacks what came later; of a longer one, the rest is unknown
 * here and not used. */
static int take_chip(const presil_chip_ops *ops, const char *path, const char *name, presil_chip_ops *out) {
    enum { HEAD = offsetof(presil_chip_ops, create) };
    if (!ops || ops->abi != PRESIL_CHIP_ABI || ops->size < HEAD)
        return presil_fail(PRESIL_ENODEV, "%s: chip ABI %u expected, %u found: rebuild it", path, PRESIL_CHIP_ABI,
                           ops ? ops->abi : 0);
    *out = (presil_chip_ops){0};
    memcpy(out, ops, ops->size < sizeof *out ? ops->size : sizeof *out);
    if (!out->name || (name && strcmp(out->name, name) != 0))
        return presil_fail(PRESIL_ENODEV, "%s is for the chip \"%s\", not \"%s\"", path, out->name ? out->name : "?",
                           name ? name : "?");
    const char *missing = chip_missing(out);
    return missing
               ? presil_fail(PRESIL_ENODEV, "%s has no %s, which every chip must have (presil_chip.h)", path, missing)
               : PRESIL_OK;
}

/* A chip of the user's own lies beside its simulator. */
static int find_chip(const presil_device *device, const char *chip, char *path) {
    char name[128];
    (void)snprintf(name, sizeof name, "libpresil_chip_%s.so", chip);
    const char *slash = device->library_path ? strrchr(device->library_path, '/') : NULL;
    if (slash && is_there(device->library_path, (size_t)(slash - device->library_path), name, path)) return PRESIL_OK;
    return find_library(name, path);
}

typedef struct {
    char (*names)[CHIP_NAME_BYTES];
    uint32_t count;
} chip_names;

static void add_name(chip_names *list, const char *name, size_t length) {
    if (length == 0 || length >= CHIP_NAME_BYTES || list->count == MOST_CHIPS) return;
    for (uint32_t i = 0; i < list->count; i++) {
        if (strlen(list->names[i]) == length && memcmp(list->names[i], name, length) == 0) return;
    }
    memcpy(list->names[list->count], name, length);
    list->names[list->count++][length] = 0;
}

static bool look_for_chips(void *context, const char *folder, size_t length) {
    static const char before[] = "libpresil_chip_", behind[] = ".so";
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%.*s", (int)length, folder);
    DIR *directory = length < sizeof path ? opendir(path) : NULL;
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *name = entry->d_name;
        const size_t all = strlen(name), ends = sizeof before + sizeof behind - 2;
        if (all > ends && strncmp(name, before, sizeof before - 1) == 0 &&
            strcmp(name + all - (sizeof behind - 1), behind) == 0)
            add_name(context, name + sizeof before - 1, all - ends);
    }
    if (directory) (void)closedir(directory);
    return false;
}

static int name_order(const void *a, const void *b) { return strcmp(a, b); }

uint32_t presil_library_chips(const presil_device *device, char names[MOST_CHIPS][CHIP_NAME_BYTES]) {
    chip_names list = {names, 0};
    const char *slash = device->library_path ? strrchr(device->library_path, '/') : NULL;
    if (slash) (void)look_for_chips(&list, device->library_path, (size_t)(slash - device->library_path));
    (void)each_place(look_for_chips, &list);
    qsort(names, list.count, CHIP_NAME_BYTES, name_order);
    return list.count;
}

int presil_library_chip(const presil_device *device, const char *chip, presil_chip_ops *out) {
    char found[PATH_BYTES];
    const char *path = device->chip_path ? device->chip_path : found;
    int status = device->chip_path ? PRESIL_OK : find_chip(device, chip, found);
    if (status) return status;
    void *entry = NULL;
    status = load(path, "presil_chip_entry", &entry);
    if (status) return status;
    presil_chip_entry_fn function;
    memcpy(&function, &entry, sizeof function);
    return take_chip(function(), path, device->chip_path ? NULL : chip, out);
}
