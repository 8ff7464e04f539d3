# SPDX-License-Identifier: Apache-2.0
"""For programs that are to be interrupted or killed in mid-launch: when that is."""

import threading
import time


def when_in_launch(act) -> None:
    """Calls `act`, on another thread, once a launch from now on runs on the chip and a thread waits for it. The launch
    has to take a second at least (inject "slow")."""
    from torch_presil import _C

    _C.collect_reports(True)
    waits, launch = _C.waits_begun(), _C.progress()

    def watch():
        while _C.waits_begun() == waits or _C.progress() == launch:
            time.sleep(0.005)
        act()

    threading.Thread(target=watch, daemon=True).start()
