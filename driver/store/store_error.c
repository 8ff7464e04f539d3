/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include "timing_store.h"

static _Thread_local char error_text[1024];

const char *presil_store_error(void) { return error_text; }

int store_fail(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error_text, sizeof error_text, format, args);
    va_end(args);
    return status;
}

static const char *advice(int code) {
    switch (code) {
    case SQLITE_NOTADB: return "it is not a timing store, or damaged from its first bytes on: name another file";
    case SQLITE_CORRUPT:
        return "it is damaged: move it away, and what was in it is simulated again (presil-store export to another "
               "file saves what can be read)";
    case SQLITE_FULL: return "the disk is full: make room, or name a file on another one";
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN: return "see that its folder exists and that both may be read and written by you";
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "another process has been writing to it for 10 s: see who (fuser), or try again";
    default: return "see its disk";
    }
}

int store_sqlite_fail(const char *path, sqlite3 *db, const char *what) {
    const int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;
    if (code == SQLITE_NOMEM) return store_fail(PRESIL_EHOSTMEM, "%s: %s: no host memory", path, what);
    return store_fail(code == SQLITE_READONLY ? PRESIL_EUNSUPPORTED : PRESIL_EIO, "%s: %s: %s; %s", path, what,
                      sqlite3_errmsg(db), advice(code));
}
