"""One of several processes that examine rules: ``python -m tensat_dl.verify.rules.worker``.

A pickled job comes in on standard input; a pickled (number, verdict) goes out for every rule. When standard input
ends, as the parent is gone, so does the process.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading

from tensat_dl.ops.table import OpTable
from tensat_dl.verify.rules.examine import Examiner
from tensat_dl.verify.rules.workers import CheckJob


def main() -> None:
    inbox, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else prints must not get between the messages
    job: CheckJob = pickle.load(inbox)

    def listen() -> None:
        inbox.read()
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    examiner = Examiner(OpTable(job.ops), job.seed)
    for number, rule in job.rules:
        pickle.dump((number, examiner.verdict(rule)), out)
        out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
