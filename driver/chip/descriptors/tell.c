/* SPDX-License-Identifier: Apache-2.0 */
/* A hazard in words, with the lines that made its commands. */
#include <stdio.h>
#include "descriptors.h"

const char *presil_hazard_name(presil_hazard_kind kind) {
    static const char *const names[] = {"overlap", "use before load", "store before done", "out of bounds",
                                        "leak",    "illegal"};
    return kind >= 1 && kind <= sizeof names / sizeof *names ? names[kind - 1] : "unknown";
}

static const char *label_of(const chip_hazards *h, size_t command) {
    return h->labels && command != PRESIL_HAZARD_NONE ? h->labels[command] : NULL;
}

void chip_hazard_tell(chip_hazards *h, presil_hazard_kind kind, const presil_desc *d, size_t command, size_t other,
                      const char *text) {
    if (h->found && h->last == command) return;
    h->found++;
    h->last = command;
    if (!h->sink) return;
    const char *const label = label_of(h, command), *const beside = label_of(h, other);
    char all[512];
    (void)snprintf(all, sizeof all, "%s%s%s: %s%s%s", label ? label : "", label ? ": " : "", presil_hazard_name(kind),
                   text, beside ? " of " : "", beside ? beside : "");
    const presil_hazard told = {.size = sizeof told,
                                .kind = kind,
                                .command = command,
                                .other = other,
                                .tile = presil_desc_tag(d),
                                .label = label,
                                .other_label = beside,
                                .text = all};
    h->sink(h->context, &told);
}
