# SPDX-License-Identifier: Apache-2.0
"""A worker for test_parity.py whose entries crash and hang when told to."""

import json
import os
import sys


def main() -> None:
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        with open(sys.argv[1], "r+b") as file:
            file.write(b"1 7 forward".ljust(256))
        if task["entry"] == "crash":
            os.abort()
        while task["entry"] == "hang":
            pass
        print(json.dumps(task | {"samples": 1, "ran": {"forward": 1}, "failed": {}, "seconds": 0}), flush=True)


if __name__ == "__main__":
    main()
