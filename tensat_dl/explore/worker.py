"""The worker process of exploration: ``python -m tensat_dl.explore.worker``.

The engine cannot be interrupted and may run out of memory, so it runs here. A pickled job comes in on standard
input; a pickled message goes out for every iteration. Standard input stays open as long as the parent lives:
when it ends, so does this process.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
from typing import BinaryIO

from tensat_dl.explore.filtered import FilteredExplorer
from tensat_dl.explore.loop import Explorer
from tensat_dl.explore.types import Job, RuleAlarm, Step
from tensat_dl.lang.diagnostics import TsrError
from tensat_dl.ops.table import OpTable

Message = Step | TsrError | RuleAlarm


def send(out: BinaryIO, message: Message) -> None:
    """Writes one message: its length in 8 bytes, then the pickle."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    out.write(len(data).to_bytes(8, "little") + data)
    out.flush()


def main() -> None:
    inbox, outbox = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not get between the messages
    job: Job = pickle.load(inbox)

    def watch() -> None:
        inbox.read()  # returns when the parent is gone
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    loop = Explorer if job.limits.cycles == "none" else FilteredExplorer
    explorer = loop(job.graph, OpTable(job.ops), job.rules, job.limits)
    try:
        for step in explorer.run():
            send(outbox, step)
    except (TsrError, RuleAlarm) as e:
        send(outbox, e)
    outbox.close()
    os._exit(0)  # the engine's memory need not be freed piece by piece


if __name__ == "__main__":
    main()
