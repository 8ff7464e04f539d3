# SPDX-License-Identifier: Apache-2.0
"""torch.distributed backend "presil": two processes with a device each. Every check runs in both; the processes are
started once."""

import os
import traceback
from datetime import timedelta

import pytest
import torch
import torch_presil  # noqa: F401
from torch import distributed as dist
from torch import multiprocessing, nn

WORLD = 2
DTYPES = [torch.float32, torch.bfloat16, torch.int64]


def on_device(rank: int) -> torch.device:
    """Devices of one process's own, or one index each of the same numbering."""
    return torch.device("presil", rank if torch.presil.device_count() == WORLD else 0)


def equal(actual: torch.Tensor, expected) -> None:
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    assert actual.device.type == "presil" and torch.equal(actual.cpu(), expected), f"{actual} is not {expected}"


def check_reductions(rank, device):
    for dtype in DTYPES:
        mine = torch.arange(6, device=device).to(dtype) + 10 * rank
        x = mine.clone()
        dist.all_reduce(x)
        equal(x, torch.arange(6) * 2 + 10)
        x = mine.clone()
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        equal(x, torch.arange(6) + 10)
        if dtype.is_floating_point:
            x = mine.clone()
            dist.all_reduce(x, op=dist.ReduceOp.AVG)
            equal(x, torch.arange(6) + 5)
        x = mine.clone()
        dist.reduce(x, dst=1)
        if rank == 1:
            equal(x, torch.arange(6) * 2 + 10)
        out = torch.empty(3, dtype=dtype, device=device)
        dist.reduce_scatter_single(out, mine)
        equal(out, (torch.arange(6) * 2 + 10)[3 * rank : 3 * rank + 3])
        dist.reduce_scatter(out, [mine[:3].clone(), mine[3:].clone()])
        equal(out, (torch.arange(6) * 2 + 10)[3 * rank : 3 * rank + 3])


def check_gathers_and_exchanges(rank, device):
    for dtype in DTYPES:
        mine = torch.arange(2, device=device).to(dtype) + 10 * rank
        both = [[0, 1], [10, 11]]
        x = mine.clone()
        dist.broadcast(x, src=1)
        equal(x, both[1])
        parts = [torch.empty(2, dtype=dtype, device=device) for _ in range(WORLD)]
        dist.all_gather(parts, mine)
        equal(torch.stack(parts), both)
        out = torch.empty(4, dtype=dtype, device=device)
        dist.all_gather_single(out, mine)
        equal(out, sum(both, []))
        parts = [torch.empty(2, dtype=dtype, device=device) for _ in range(WORLD)] if rank == 0 else None
        dist.gather(mine, parts, dst=0)
        if rank == 0:
            equal(torch.stack(parts), both)
        x = torch.empty(2, dtype=dtype, device=device)
        dist.scatter(x, [mine + 1, mine + 2] if rank == 1 else None, src=1)
        equal(x, [11 + rank, 12 + rank])
        dist.all_to_all_single(x, mine)
        equal(x, [rank, 10 + rank])
        parts = [torch.empty(1, dtype=dtype, device=device) for _ in range(WORLD)]
        dist.all_to_all(parts, list(mine.split(1)))
        equal(torch.cat(parts), [rank, 10 + rank])
        if rank == 0:
            dist.send(mine, dst=1)
        else:
            dist.recv(x, src=0)
            equal(x, both[0])
    objects = [None] * WORLD
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": 0}, {"rank": 1}]


def check_work_objects(rank, device):
    x = torch.ones(1 << 16, device=device)
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed() and work.is_success()
    assert work.result()[0].data_ptr() == x.data_ptr()
    [y] = work.get_future().wait()
    assert y.data_ptr() == x.data_ptr()
    equal(y[:2], [2, 2])
    dist.barrier()


def check_that_launches_come_first(rank, device):
    a = torch.full((64, 64), 0.5 + rank, device=device)
    x = a @ a
    dist.all_reduce(x)
    equal(x[0, :2], [64 * (0.25 + 2.25)] * 2)
    w = torch.full((4, 4, 1, 1), float(rank), device=device)
    image = torch.ones(1, 4, 2, 2, device=device)
    nn.functional.conv2d(image, w)  # packs the weight: what the broadcast writes must be packed anew
    dist.broadcast(w, src=1)
    equal(nn.functional.conv2d(image, w)[0, 0, 0], [4, 4])


def check_refusals(rank, device):
    x = torch.ones(4, device=device)
    with pytest.raises((RuntimeError, ValueError), match="size|shape|numel"):
        dist.all_gather_single(torch.empty(5, device=device), x)
    with pytest.raises((RuntimeError, ValueError), match="dtype|type"):
        dist.all_gather_single(torch.empty(8, dtype=torch.int64, device=device), x)
    with pytest.raises((RuntimeError, ValueError), match="device|CPU"):
        dist.all_gather([torch.empty(4), torch.empty(4)], x)
    dist.all_reduce(x)  # nothing above left the group in disorder
    equal(x, [2] * 4)


def small_model(device):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 5),
    ).to(device)


def half(step: int, rank: int):
    g = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(4, 3, 8, 8, generator=g), torch.randint(0, 5, (4,), generator=g)


def check_capture_is_refused(rank, device):
    x = torch.full((4,), 1.0 + rank, device=device)
    g = torch.presil.PresilGraph()
    with pytest.raises(RuntimeError, match="all_?reduce can't be captured.*between two graphs"):
        with torch.presil.graph(g):
            y = x * 2
            dist.all_reduce(y)
    first, second = torch.presil.PresilGraph(), torch.presil.PresilGraph()
    with torch.presil.graph(first):
        y = x * 2
    with torch.presil.graph(second, pool=first.pool()):
        z = y + 1
    first.replay()
    dist.all_reduce(y)
    second.replay()
    equal(z, torch.full((4,), 7.0))


def check_ddp(rank, device):
    model = nn.parallel.DistributedDataParallel(small_model(device), broadcast_buffers=False)
    alone = small_model(device)
    twins = [alone, small_model(device)]  # one a rank: batch norm's statistics are each process's own
    optimizer, reference = torch.optim.SGD(model.parameters(), lr=0.1), torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(2):
        data, labels = (t.to(device) for t in half(step, rank))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(data), labels).backward()
        grads = []
        for r, twin in enumerate(twins):
            data, labels = (t.to(device) for t in half(step, r))
            twin.zero_grad()
            nn.functional.cross_entropy(twin(data), labels).backward()
            grads.append([p.grad.clone() for p in twin.parameters()])
        for p, q, *both in zip(model.parameters(), alone.parameters(), *grads):
            q.grad.copy_(both[0] / 2 + both[1] / 2)
            assert torch.equal(p.grad, q.grad)
        optimizer.step()
        reference.step()
        with torch.no_grad():
            for p, q in zip(twins[1].parameters(), alone.parameters()):
                p.copy_(q)
    for p, q in zip(model.parameters(), alone.parameters()):
        assert torch.equal(p, q)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def check_weights_of_now(rank, device):
    """Packed while a collective is under way that will write them, by users of every kind; and by way of each question
    that finds the work done."""
    net = nn.Sequential(nn.Conv2d(4, 4, 1, bias=False)).to(device).requires_grad_(False)
    image = torch.ones(1, 4, 2, 2, device=device)
    model = torch.compile(net, backend="presil")
    g, stream = torch.presil.PresilGraph(), torch.presil.Stream()
    with torch.no_grad(), torch.presil.graph(g, stream=stream):
        out = net(image)

    def replay():
        g.replay()
        return out

    store = dist.distributed_c10d._get_default_store()
    ends = {
        "wait": lambda work: work.wait(),
        "future": lambda work: work.get_future().wait(),
        "completed": lambda work: [None for _ in iter(work.is_completed, True)],
    }
    for value, (name, end) in enumerate(ends.items(), 1):
        with torch.no_grad():
            net[0].weight.fill_(value + rank * 10)
            if rank == 1:
                store.wait([name])
            work = dist.broadcast(net[0].weight, src=1, async_op=True)
            if rank == 0:
                for run in (lambda: net(image), lambda: model(image), replay):
                    equal(run()[0, 0, 0], [4 * value] * 2)  # packed before the bytes come
                store.set(name, "packed")
            end(work)
            for run in (lambda: net(image), lambda: model(image), replay):
                equal(run()[0, 0, 0], [4 * (value + 10)] * 2)
    received = torch.zeros(4, 4, 1, 1, device=device)
    if rank == 0:
        equal(nn.functional.conv2d(image, received)[0, 0, 0], [0, 0])
        dist.recv(received, src=1)
        equal(nn.functional.conv2d(image, received)[0, 0, 0], [2, 2])
    else:
        dist.send(received + 0.5, dst=0)


def check_timeout(rank, device):
    group = dist.new_group(timeout=timedelta(seconds=2))
    if rank == 0:
        with pytest.raises(RuntimeError, match="[Tt]imed out|[Tt]imeout"):
            dist.all_reduce(torch.ones(2, device=device), group=group)
    dist.barrier()


CHECKS = [
    check_reductions,
    check_gathers_and_exchanges,
    check_work_objects,
    check_that_launches_come_first,
    check_refusals,
    check_capture_is_refused,
    check_ddp,
    check_weights_of_now,
    check_timeout,
]


def worker(rank: int, folder: str, seconds: int) -> None:
    """Writes one file a check: empty, or the traceback. The group is made and destroyed around every one."""
    torch.set_num_threads(1)
    device = on_device(rank)
    torch.presil.set_device(device)
    for check in CHECKS:
        text = ""
        try:
            dist.init_process_group(
                "presil",
                init_method=f"file://{folder}/{check.__name__}.store",
                rank=rank,
                world_size=WORLD,
                timeout=timedelta(seconds=seconds),
                device_id=device,
            )
            assert dist.get_backend() == "presil"
            check(rank, device)
            dist.destroy_process_group()
        except BaseException:  # the parent shows it
            text = traceback.format_exc()
        with open(f"{folder}/{check.__name__}.{rank}", "w") as file:
            file.write(text)
        if text:
            return  # the other process may hang in this group: its timeout ends it


@pytest.fixture(scope="module", params=[1, 2], ids=["a device in each process", "an index of two devices each"])
def results(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("group")
    before = os.environ.get("PRESIL_DEVICES")
    os.environ["PRESIL_DEVICES"] = str(request.param)
    try:
        multiprocessing.spawn(worker, (str(folder), 60), WORLD)
    finally:
        if before is None:
            del os.environ["PRESIL_DEVICES"]
        else:
            os.environ["PRESIL_DEVICES"] = before
    return folder


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.__name__.removeprefix("check_"))
def test_two_processes(results, check):
    for rank in range(WORLD):
        file = results / f"{check.__name__}.{rank}"
        assert file.exists(), f"rank {rank} did not get so far"
        assert not file.read_text(), f"rank {rank}:\n{file.read_text()}"


def test_default_backend_of_the_device():
    assert dist.Backend.default_device_backend_map["presil"] == "presil"
    assert dist.is_backend_available("presil")
