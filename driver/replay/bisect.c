/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first command of a launch that goes wrong: its first n commands are run on the chip and on the model, n halving
 * the distance between a beginning that is right and one that is not. With each beginning the chip's own memories are
 * carried out and compared too, so that a wrong value is seen where it comes up, not where it leaves the chip. Where
 * that hides the fault (it depends on when things happen) or can't work (what carries is what is broken), memory alone
 * is compared.
 */
#include "replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "presil_debug.h"

typedef enum { RIGHT, WRONG, CANT_STAND, STOPPED } verdict;

typedef struct {
    replay *r;
    presil_list *list;
    uint64_t commands, runs;
    bool observed;
    presil_daddr where; /* of what is carried out */
    bool quiet;
    int outcome;      /* STOPPED: an exit status */
    probed now, last; /* last: of the shortest beginning that is wrong */
    way steps;
    first_difference left; /* of the whole launch as it is: where and when it leaves the chip */
} bisection;

static verdict stop(bisection *b, int outcome) {
    b->outcome = outcome;
    return STOPPED;
}

static verdict try(bisection *b, uint64_t n, bool observed) {
    presil_list *part = NULL;
    int status = presil_list_prefix(b->list, n, observed ? &b->where : NULL, &part);
    if (status == PRESIL_EINVAL) return CANT_STAND;
    if (status) return stop(b, replay_fail(EXIT_INTERNAL, "%s", presil_error_text()));
    status = replay_put_memory(b->r);
    if (!status) status = replay_probe(b->r, part, &b->now);
    presil_list_destroy(part);
    if (status) return stop(b, status);
    if (replay_stopped) return stop(b, EXIT_INTERNAL);
    b->runs++;
    if (b->now.status) b->last = b->now;
    if (observed) way_note(&b->steps, &b->now, n);
    if (!b->quiet)
        (void)fprintf(stderr, "  the first %" PRIu64 " of %" PRIu64 " commands%s: %s\n", n, b->commands,
                      observed ? "" : ", memory alone",
                      b->now.status ? presil_status_name((presil_status)b->now.status) : "equal");
    return b->now.status ? WRONG : RIGHT;
}

/* Room that the launch does not touch. The heap knows nothing of what lies where the bundle says. */
static int find_room(bisection *b, const extent *touched) {
    enum { MOST = 4096 };
    presil_daddr *tried = calloc(MOST, sizeof *tried);
    uint64_t bytes = 0, count = 0;
    int status = tried ? presil_list_observed(b->list, &bytes) : PRESIL_EHOSTMEM;
    bool found = false;
    while (!status && !found && count < MOST) {
        status = presil_alloc(b->r->device, NULL, NULL, bytes, &tried[count]);
        if (status) break;
        b->where = tried[count++];
        found = b->where.value >= touched->high || b->where.value + bytes <= touched->low;
    }
    for (uint64_t i = 0; i < count; i++) found &= presil_free(b->r->device, tried[i]) == PRESIL_OK;
    free(tried);
    return found ? PRESIL_OK : PRESIL_ENOMEM;
}

/* Can what the chip has inside be compared? Both the whole launch, and nothing of it, must show what is expected. */
static verdict choose(bisection *b, bool wrong) {
    const probed whole = b->last;
    if (find_room(b, &b->now.touched)) {
        (void)fprintf(stderr, "  there is no room in memory for what the chip holds: memory alone is compared\n");
        return RIGHT;
    }
    verdict v = try(b, 0, true);
    if (v == WRONG) {
        (void)fprintf(stderr, "  what the chip holds can't be carried to memory: memory alone is compared\n");
        b->last = whole;
        return RIGHT;
    }
    if (v == RIGHT) v = try(b, b->commands, true);
    b->observed = v == WRONG;
    if (wrong && v == RIGHT) {
        (void)fprintf(stderr, "  it is right when it is watched (so it depends on time): memory alone is compared\n");
        b->last = whole;
    }
    return v == STOPPED ? STOPPED : RIGHT;
}

/* right: behind so many commands all is right, behind `wrong` it is not; leaves them as near as they come. */
static verdict narrow(bisection *b, uint64_t *right, uint64_t *wrong) {
    while (*wrong - *right > 1) {
        const uint64_t middle = *right + (*wrong - *right) / 2;
        uint64_t n = middle;
        verdict v = try(b, n, b->observed);
        while (v == CANT_STAND && n + 1 < *wrong) v = try(b, ++n, b->observed);
        if (v == CANT_STAND) n = middle;
        while (v == CANT_STAND && n - 1 > *right) v = try(b, --n, b->observed);
        if (v == CANT_STAND) return RIGHT; /* none between them stands alone */
        if (v == STOPPED) return v;
        *(v == WRONG ? wrong : right) = n;
    }
    return RIGHT;
}

/* Of each memory in which something was wrong: the shortest beginning behind which it is. b->last stays. */
static verdict follow(bisection *b) {
    const probed first = b->last;
    verdict v = RIGHT;
    for (uint32_t i = 0; i < b->steps.count && v != STOPPED; i++) {
        while (b->steps.steps[i].wrong - b->steps.steps[i].right > 1 && v != STOPPED) {
            const uint64_t right = b->steps.steps[i].right, wrong = b->steps.steps[i].wrong;
            uint64_t n = right + (wrong - right) / 2;
            v = try(b, n, true);
            while (v == CANT_STAND && n + 1 < wrong) v = try(b, ++n, true);
            if (v == CANT_STAND) break;
            if (b->steps.steps[i].right == right && b->steps.steps[i].wrong == wrong) break; /* it fails otherwise */
        }
    }
    way_sort(&b->steps);
    b->last = first;
    return v == STOPPED ? v : RIGHT;
}

/* ---- telling */
static const char *name_of(const bisection *b, uint64_t command, const char *unknown, char text[128]) {
    if (presil_list_command_name(b->list, command, text, 128)) (void)snprintf(text, 128, "%s", unknown);
    return text;
}

static void print_way(const bisection *b) {
    if (b->steps.count) (void)printf("the way of what is wrong:\n");
    for (uint32_t i = 0; i < b->steps.count; i++) {
        const way_step *s = &b->steps.steps[i];
        char name[128];
        (void)printf("  behind %" PRIu64 ", %s: %s: 0x%02x, 0x%02x expected\n", s->wrong - 1,
                     name_of(b, s->wrong - 1, "?", name), s->place.where, s->place.found, s->place.expected);
    }
    const first_difference *d = &b->left;
    if (!d->present || d->cycle == UINT64_MAX) return;
    (void)printf("  on the bus in cycle %" PRIu64 " of the whole launch: the beat of 0x%" PRIx64 ": %s\n", d->cycle,
                 d->address, d->where);
}

static void write_way(FILE *f, const bisection *b) {
    (void)fputs(", \"way\": [", f);
    for (uint32_t i = 0; i < b->steps.count; i++) {
        const way_step *s = &b->steps.steps[i];
        char name[128];
        (void)fprintf(f, "%s{\"right\": %" PRIu64 ", \"command\": %" PRIu64 ", \"name\": ", i ? ", " : "", s->right,
                      s->wrong - 1);
        put_text(f, name_of(b, s->wrong - 1, "", name));
        (void)fputs(", \"memory\": ", f);
        put_text(f, s->place.kind);
        (void)fputs(", \"where\": ", f);
        put_text(f, s->place.where);
        (void)fprintf(f, ", \"address\": %" PRIu64 ", \"expected\": %u, \"found\": %u}", s->place.address,
                      s->place.expected, s->place.found);
    }
    (void)fputs("], \"bus\": ", f);
    const first_difference *d = &b->left;
    if (!d->present || d->cycle == UINT64_MAX) {
        (void)fputs("null", f);
        return;
    }
    (void)fprintf(f, "{\"address\": %" PRIu64 ", \"cycle\": %" PRIu64 ", \"where\": ", d->address, d->cycle);
    put_text(f, d->where);
    (void)fputs("}", f);
}

static void print_found(const bisection *b, uint64_t right, uint64_t wrong) {
    const replayed *l = b->r->out;
    char name[128];
    (void)name_of(b, wrong - 1, "?", name);
    if (wrong - right == 1)
        (void)printf("first command that differs: %" PRIu64 ", %s", wrong - 1, name);
    else
        (void)printf("first command that differs: one of %" PRIu64 " to %" PRIu64 ", %s", right, wrong - 1, name);
    (void)printf(" (of %" PRIu64 "; %s%s%s)\n", b->commands, l->module, *l->module ? "  " : "", l->label);
    const first_difference *d = &b->last.difference;
    if (!d->present) {
        (void)printf("  %s%s\n", b->last.error,
                     b->observed ? " (it counts the commands that are put in front to watch it, too)" : "");
        return;
    }
    (void)printf("  %s, at 0x%" PRIx64, d->where, d->address);
    if (d->bytes)
        (void)printf(": 0x%02x, 0x%02x expected; %" PRIu64 " bytes differ\n", d->found, d->expected, d->bytes);
    else
        (void)printf(": %s\n", "written by one of chip and model alone");
    print_way(b);
}

static int write_found(const bisection *b, uint64_t right, uint64_t wrong) {
    const char *path = b->r->a->json;
    FILE *f = open_report(path);
    if (!f) return EXIT_USAGE;
    const first_difference *d = &b->last.difference;
    char name[128];
    (void)fprintf(f, "{\"bundle\": ");
    put_text(f, b->r->a->file);
    (void)fprintf(f, ", \"launch\": %" PRIu64 ", \"label\": ", b->r->out->place);
    put_text(f, b->r->out->label);
    (void)fprintf(f, ", \"commands\": %" PRIu64 ", \"runs\": %" PRIu64 ", \"observed\": %s, \"exit\": %d", b->commands,
                  b->runs, b->observed ? "true" : "false", b->outcome);
    if (!wrong) {
        (void)fputs(", \"command\": null", f);
    } else {
        (void)fprintf(f, ", \"right\": %" PRIu64 ", \"command\": %" PRIu64 ", \"name\": ", right, wrong - 1);
        put_text(f, name_of(b, wrong - 1, "", name));
        (void)fprintf(f, ", \"status\": \"%s\", \"error\": ", presil_status_name((presil_status)b->last.status));
        put_text(f, b->last.error);
    }
    if (wrong && d->present) {
        (void)fputs(", \"where\": ", f);
        put_text(f, d->where);
        (void)fprintf(f, ", \"address\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"expected\": %u, \"found\": %u",
                      d->address, d->bytes, d->expected, d->found);
    }
    write_way(f, b);
    (void)fputs("}\n", f);
    return close_report(f, path);
}

static int tell(bisection *b, uint64_t right, uint64_t wrong) {
    b->outcome = !wrong ? EXIT_PASS : b->last.status == PRESIL_EHUNG ? EXIT_HUNG : EXIT_MISMATCH;
    const bool json_alone = b->r->a->json && strcmp(b->r->a->json, "-") == 0;
    if (!json_alone && wrong) print_found(b, right, wrong);
    if (!json_alone && !wrong)
        (void)printf("no command differs: RTL and model agree behind all %" PRIu64 "\n", b->commands);
    const int failed = b->r->a->json ? write_found(b, right, wrong) : EXIT_PASS;
    return failed ? failed : b->outcome;
}

static int bisect(bisection *b) {
    verdict v = try(b, b->commands, false);
    if (v == CANT_STAND) return replay_fail(EXIT_USAGE, "%s", presil_error_text());
    const bool wrong = v == WRONG;
    b->left = b->now.difference;
    if (v != STOPPED) v = choose(b, wrong);
    if (v == STOPPED) return b->outcome;
    if (!wrong && !b->observed) return tell(b, 0, 0);
    uint64_t low = 0, high = b->commands;
    v = narrow(b, &low, &high);
    if (v != STOPPED && b->observed) v = follow(b);
    if (v == STOPPED && replay_stopped)
        return replay_fail(b->outcome, "stopped: it is one of the commands %" PRIu64 " to %" PRIu64, low, high - 1);
    return v == STOPPED ? b->outcome : tell(b, low, high);
}

int replay_first_unit(replay *r, presil_list *list, char *unit, size_t bytes, uint64_t *runs) {
    bisection *b = calloc(1, sizeof *b);
    if (!b) return replay_fail(EXIT_INTERNAL, "no host memory");
    *b = (bisection){.r = r, .list = list, .quiet = true};
    uint64_t low = 0;
    char name[128] = "";
    verdict v = presil_list_commands(list, &b->commands) ? CANT_STAND : try(b, b->commands, false);
    if (v == WRONG) v = choose(b, true);
    uint64_t high = b->commands;
    if (v == RIGHT && b->observed) v = narrow(b, &low, &high);
    if (v == RIGHT && b->observed && high) (void)name_of(b, high - 1, "", name);
    (void)snprintf(unit, bytes, "%.*s", (int)strcspn(name, ","), name);
    *runs += b->runs;
    const int status = v == STOPPED ? b->outcome : EXIT_PASS;
    free(b);
    return status;
}

/* What `r` replays was perhaps not compared with the model, and had a waveform: a bisection has it the other way. */
int replay_name_unit(const replay *r, replayed *failed) {
    arguments a = *r->a;
    a.mode = PRESIL_MODE_VERIFY, a.mode_name = "verify", a.trace = NULL, a.windowed = false;
    replay other = {.a = &a, .reader = r->reader};
    replayed out;
    presil_list *list = NULL;
    uint64_t runs = 0;
    int status = replay_take(&other, failed->place, &out);
    if (!status) status = replay_load(&other, &list);
    if (!status) status = replay_first_unit(&other, list, failed->unit, sizeof failed->unit, &runs);
    presil_list_destroy(list);
    replay_drop(&other);
    replay_close_chip(&other);
    return status;
}

int replay_bisect(replay *r, uint64_t place) {
    replayed out;
    bisection *b = calloc(1, sizeof *b);
    if (!b) return replay_fail(EXIT_INTERNAL, "no host memory");
    *b = (bisection){.r = r, .quiet = r->a->json && strcmp(r->a->json, "-") == 0};
    int status = replay_take(r, place, &out);
    if (!status) status = replay_load(r, &b->list);
    if (!status && r->injected)
        status = replay_fail(EXIT_USAGE,
                             "launch %" PRIu64 " was captured with a fault, which the model does not have: it has no "
                             "first wrong command",
                             place);
    if (!status && presil_list_commands(b->list, &b->commands))
        status = replay_fail(EXIT_USAGE, "%s", presil_error_text());
    if (!status && !b->quiet) print_chip(r);
    if (!status) status = bisect(b);
    presil_list_destroy(b->list);
    replay_drop(r);
    free(b);
    return status;
}
