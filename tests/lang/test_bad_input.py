"""What a user reads when a file is wrong: bad/NAME.tsr must give exactly the messages in bad/NAME.expected.

After a message has changed on purpose, write the expected ones anew and read what changed:

    UPDATE_GOLDEN=1 pytest tests/lang/test_bad_input.py
    git diff tests/lang/bad
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .golden import check_golden
from .messages import messages

pytestmark = pytest.mark.sampled(5)

BAD = Path(__file__).parent / "bad"


@pytest.mark.parametrize("path", sorted(BAD.glob("*.tsr")), ids=lambda p: p.stem)
def test_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    check_golden(path.with_suffix(".expected"), messages(path.name))


def test_every_expectation_has_its_input() -> None:
    assert {p.stem for p in BAD.glob("*.expected")} == {p.stem for p in BAD.glob("*.tsr")}
