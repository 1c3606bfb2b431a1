"""The worker process of exploration: ``python -m tensat_dl.engine.worker``.

The engine cannot be interrupted and may run out of memory, so it runs here. A pickled job comes in on standard
input; a pickled message goes out for every iteration. Then the process waits for feedback, to which it answers with
another message: an iteration, or None if there is nothing to add. An alarm comes twice: at once, and when it is known
which rules are to blame. Standard input stays open as long as the parent
lives: when it ends, so does this process. Asked for its history instead, it answers with that.
"""

from __future__ import annotations

import os
import pickle
import pkgutil
import queue
import sys
import threading
from typing import BinaryIO

from tensat_dl.core.diagnostics import TsrError
from tensat_dl.engine.blame import blamed
from tensat_dl.engine.loop import Explorer
from tensat_dl.engine.types import AskHistory, ExploredIteration, Feedback, History, Job, RuleAlarm
from tensat_dl.ops.table import OpTable

Message = ExploredIteration | History | TsrError | RuleAlarm | None


def send(out: BinaryIO, message: Message) -> None:
    """Writes one message: its length in 8 bytes, then the pickle."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    out.write(len(data).to_bytes(8, "little") + data)
    out.flush()


def main() -> None:
    inbox, outbox = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not get between the messages
    job: Job = pickle.load(inbox)

    requests: queue.SimpleQueue[Feedback | AskHistory] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while True:
                requests.put(pickle.load(inbox))
        except (EOFError, pickle.UnpicklingError):  # the parent is gone
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    loop: type[Explorer] = pkgutil.resolve_name(job.limits.schedule)
    explorer = loop(job.graph, OpTable(job.ops), job.rules, job.limits, job.estimate)
    try:
        for step in explorer.run():
            send(outbox, step)
        while True:
            request = requests.get()
            if isinstance(request, AskHistory):
                send(outbox, explorer.history())
            else:
                send(outbox, explorer.refine(request))
    except TsrError as e:
        send(outbox, e)
    except RuleAlarm as alarm:
        send(outbox, alarm)  # this process may be ended while it looks for the culprits
        send(outbox, blamed(alarm, job, loop))
    outbox.close()
    os._exit(0)  # the engine's memory need not be freed piece by piece


if __name__ == "__main__":
    main()
