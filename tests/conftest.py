"""What all tests have in common."""

from __future__ import annotations

import signal

# Ctrl-C is tested, and whoever starts the tests in the background may have told them to ignore it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
