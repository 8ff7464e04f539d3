# SPDX-License-Identifier: Apache-2.0
"""A dask scheduler with workers, until its standard input ends: cluster.py [WORKERS]. Prints its address as JSON."""

import json
import logging
import os
import resource
import sys


def limit() -> None:
    """In a worker: no file grows larger than PRESIL_TEST_FILE_LIMIT, as on a disk that is full. PRESIL_TEST_LIMITED: of
    how many workers (default: all)."""
    os.environ["PRESIL_FARM_CACHE"] += "-full"  # a machine of its own: nobody else fetches for it
    bytes_ = int(os.environ["PRESIL_TEST_FILE_LIMIT"])
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


if __name__ == "__main__":
    import dask
    from distributed import Client, LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 1})
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    facts = {"threads_per_worker": 1, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=workers, silence_logs=logging.CRITICAL, **facts) as cluster:
        if "PRESIL_TEST_FILE_LIMIT" in os.environ:
            few = int(os.environ.get("PRESIL_TEST_LIMITED") or workers)
            with Client(cluster, set_as_default=False) as client:
                client.run(limit, workers=sorted(client.nthreads())[:few])
        print(json.dumps({"address": cluster.scheduler_address}), flush=True)
        sys.stdin.read()
