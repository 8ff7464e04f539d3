/* SPDX-License-Identifier: Apache-2.0 */
/* The process-wide log: warnings of the driver, and what a simulator prints. */
#include "fail.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*log_function)(void *context, const char *text);
static void *log_context;

void presil_set_log(void (*log)(void *context, const char *text), void *context) {
    (void)pthread_mutex_lock(&log_lock);
    log_function = log;
    log_context = context;
    (void)pthread_mutex_unlock(&log_lock);
}

/* The function is called outside the lock, so that it may use the driver. */
static void emit(const char *text) {
    (void)pthread_mutex_lock(&log_lock);
    void (*function)(void *, const char *) = log_function;
    void *context = log_context;
    (void)pthread_mutex_unlock(&log_lock);
    if (function)
        function(context, text);
    else
        (void)fprintf(stderr, "presil: %s\n", text);
}

void presil_warn(const char *format, ...) {
    char text[ERROR_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    emit(text);
}

void presil_log_transport(void *context, const char *text) {
    (void)context;
    emit(text);
}
