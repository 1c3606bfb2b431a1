"""Answers of commands do not depend on how many jobs are done at a time. tests/jobs/test_ray.py compares with Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jobs.answers import COMMANDS


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_one_job_at_a_time_or_four(command: str, tmp_path: Path) -> None:
    found = []
    for jobs in (1, 4):
        (tmp_path / str(jobs)).mkdir()
        found.append(COMMANDS[command](tmp_path / str(jobs), "--jobs", jobs))
    assert found[0] == found[1]
