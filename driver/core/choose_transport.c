/* SPDX-License-Identifier: Apache-2.0 */
/* Which transport a device uses: its entry of "inproc", or "socket:A[,options];board:B;...". */
#include "choose_transport.h"
#include "device.h"
#include "fail.h"
#include "board_ops.h"
#include "client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char in_process[] = "inproc";

static const struct {
    const char *prefix;
    const presil_transport_ops *(*ops)(void);
} remotes[] = {{"socket:", presil_socket_ops}, {"board:", presil_board_ops}};

static const presil_transport_ops *remote_ops(const char *entry, size_t bytes) {
    for (size_t i = 0; i < sizeof remotes / sizeof *remotes; i++) {
        const size_t n = strlen(remotes[i].prefix);
        if (bytes > n && memcmp(entry, remotes[i].prefix, n) == 0) return remotes[i].ops();
    }
    return NULL;
}

const presil_transport_ops *presil_transport_remote_ops(const presil_device *device) {
    return remote_ops(device->transport_spec, strlen(device->transport_spec));
}

bool presil_transport_is_remote(const presil_device *device) { return presil_transport_remote_ops(device) != NULL; }

static int use_entry(presil_device *device, const char *entry, size_t bytes) {
    const bool known =
        (bytes == sizeof in_process - 1 && memcmp(entry, in_process, bytes) == 0) || remote_ops(entry, bytes);
    if (!known || bytes >= sizeof device->transport_spec)
        return presil_fail(PRESIL_EINVAL,
                           "transport \"%.*s\": \"inproc\", \"socket:PATH[,copy][,timeout=SECONDS][,uid=NUMBER]\" "
                           "or \"board:FILE\" expected, at most %zu bytes",
                           bytes < 200 ? (int)bytes : 200, entry, sizeof device->transport_spec - 1);
    (void)snprintf(device->transport_spec, sizeof device->transport_spec, "%.*s", (int)bytes, entry);
    return PRESIL_OK;
}

int presil_choose_transport(presil_device *device, const char *list, uint32_t index) {
    if (!list && !device->library_path) list = getenv("PRESIL_TRANSPORT");
    if (!list || !*list) list = in_process;
    if (strcmp(list, in_process) == 0) return use_entry(device, list, strlen(list));
    if (device->library_path)
        return presil_fail(
            PRESIL_EINVAL,
            "transport \"%.120s\" and library \"%.120s\" can't both be given: what is remote has its own", list,
            device->library_path);
    const char *entry = list;
    for (uint32_t i = 0; i < index; i++) {
        entry = strchr(entry, ';');
        if (!entry)
            return presil_fail(
                PRESIL_EINVAL,
                "transport \"%.200s\" has %u entries, device %u needs one of its own: separate them with \";\"", list,
                i + 1, index);
        entry++;
    }
    return use_entry(device, entry, strcspn(entry, ";"));
}
