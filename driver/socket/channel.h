/* SPDX-License-Identifier: Apache-2.0 */
/* channel.h - messages over a connected Unix-domain socket: sending with a deadline, receiving into a buffer, a file
 * descriptor on the way. Both ends use it. */
#ifndef PRESIL_CHANNEL_H
#define PRESIL_CHANNEL_H

#include <sys/socket.h>
#include <sys/un.h>
#include "protocol.h"

struct iovec;
struct pollfd;

typedef struct {
    int fd; /* non-blocking; -1: none */
    uint8_t *buffer;
    size_t capacity, start, end;
} channel;

int channel_open(channel *c, int fd); /* 0 or -ENOMEM; takes the descriptor either way */
void channel_close(channel *c);

uint64_t channel_now_ms(void);
/* Who is at the other end: user and process, as the kernel noted them at connect() and listen(). */
bool channel_peer(int fd, unsigned *uid, int *pid);
/* Fills in the address of a path; false: too long or empty. */
bool channel_address(const char *path, struct sockaddr_un *out, socklen_t *bytes);

/* Sends all of it. timeout_ms: without a byte going out (0: what does not fit at once is not waited for). pass_fd: goes
 * with the first byte; -1: none. 0 or -errno (-ETIMEDOUT: the peer does not read). Changes parts. */
int channel_send(int fd, struct iovec *parts, size_t count, int timeout_ms, int pass_fd);

/* Sends what goes out at once. Bytes sent, or -errno (-EAGAIN: none). */
int channel_send_some(int fd, struct iovec *parts, size_t count);

/* poll() that first looks for spin_us microseconds without sleeping, if a core is free for that: where cores are idle,
 * waking up costs 20 to 40 us of a launch. */
int channel_poll(struct pollfd *fds, size_t count, int timeout_ms, unsigned spin_us);

/* Receives what is there. > 0: bytes; 0: the peer has closed; -EAGAIN: nothing; another -errno. Descriptors that come
 * along are closed. */
int channel_receive(channel *c);
/* The same; the first descriptor that comes along goes to *fd (the caller's now), any further one is closed and *extra
 * counts it. */
int channel_receive_fd(channel *c, int *fd, unsigned *extra);

/* 1: a whole message starts at *payload - PROTOCOL_HEADER; 0: more has to come; -1 with a text: nonsense. */
int channel_frame(const channel *c, protocol_frame *out, const uint8_t **payload, char *text, size_t text_bytes);
void channel_pop(channel *c, const protocol_frame *frame);
size_t channel_pending(const channel *c); /* bytes received and not yet popped */

#endif
