# SPDX-License-Identifier: Apache-2.0
"""Threads: of the user's program, of autograd, of the twin."""

import os
import threading

import torch

P = torch.presil


def in_threads(n, work):
    errors = []

    def run(i):
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    [t.start() for t in threads], [t.join() for t in threads]
    if errors:
        raise errors[0]


def test_launches_host_operators_and_frees_of_two_threads():
    """Blocks go back and forth between the threads while launches that use them are enqueued: no result is
    another's."""

    def work(i):
        w = torch.eye(64, device="presil")
        for k in range(150):
            value = float(1000 * i + k)
            x = torch.full((64, 64), value, device="presil")
            y = x @ w
            del x
            z = torch.ones(64, 64, device="presil") * -1  # the host's: takes what was just freed
            assert y.amin().item() == value == y.amax().item()
            assert z.amax().item() == -1

    in_threads(2, work)


def test_recording_a_partition_takes_nobody_elses_launches():
    """One thread records partition after partition (a size each) while another multiplies on the same stream: none of
    the other's products becomes part of a partition instead of being computed."""
    layer = torch.compile(torch.nn.Linear(16, 16).to("presil"), backend="presil", dynamic=True)
    started, done = threading.Event(), threading.Event()

    def record():
        try:
            layer(torch.randn(2, 16, device="presil"))  # compiles
            started.set()
            with torch.no_grad():
                return [layer(torch.randn(n, 16, device="presil")) for n in range(3, 83)]
        finally:
            started.set()
            done.set()

    def multiply():
        started.wait()
        wrong, count = 0, 0
        eye = torch.eye(64, device="presil")
        while not done.is_set() or count < 50:
            value = float(count % 100 + 1)
            product = torch.full((64, 64), value, device="presil") @ eye
            wrong, count = wrong + (product.amin().item() != value), count + 1
        assert wrong == 0, f"{wrong} of {count} products"

    in_threads(2, lambda i: (record, multiply)[i]())


def test_training_in_two_threads_gives_what_one_gives():
    def train(seed):
        g = torch.Generator().manual_seed(seed)
        x, y = torch.randn(16, 8, generator=g).to("presil"), torch.randn(16, 2, generator=g).to("presil")
        w = torch.randn(8, 2, generator=g).to("presil").requires_grad_()
        for _ in range(10):
            loss = ((x @ w - y) ** 2).mean()
            (grad,) = torch.autograd.grad(loss, w)
            w = (w - 0.1 * grad).detach().requires_grad_()
        return w.detach().cpu()

    alone = [train(i) for i in range(4)]
    together = [None] * 4

    def work(i):
        together[i] = train(i)

    in_threads(4, work)
    assert all(torch.equal(a, b) for a, b in zip(alone, together))


def test_autograd_has_a_thread_for_the_device():
    x = torch.ones(4, 4, device="presil", requires_grad=True)
    (x @ x).sum().backward()
    names = [open(f"/proc/self/task/{t}/comm").read().strip() for t in os.listdir("/proc/self/task")]
    assert any(n.startswith("pt_autograd_") for n in names), names
    seen = []
    x.register_hook(lambda g: seen.append(threading.get_ident()))
    (x @ x).sum().backward()
    assert seen and seen[0] != threading.get_ident()


def test_twin_and_host_follow_set_num_threads():
    """More threads, more threads of the process; same bits."""
    before = torch.get_num_threads()
    x = torch.randn(512, 512, device="presil")
    try:
        torch.set_num_threads(1)
        one = (x @ x).cpu()
        count = len(os.listdir("/proc/self/task"))
        torch.set_num_threads(3)
        three = (x @ x).cpu()
        grown = len(os.listdir("/proc/self/task"))
        assert torch.equal(one, three)
        assert grown >= count + 2, (count, grown)
        torch.set_num_threads(1)
        assert torch.equal((x @ x).cpu(), one)
        assert len(os.listdir("/proc/self/task")) <= grown - 2, "the twin's threads end when fewer are wanted"
    finally:
        torch.set_num_threads(before)
