"""The device files."""

import json
from pathlib import Path

import pytest

from tensat_dl.core.graph import DTYPES
from tensat_dl.cost import UnknownDeviceError, device, device_names, load_device


def test_devices_are_listed_in_order() -> None:
    assert {"a100", "cpu", "h100", "l4", "mi300x", "rtx4090"} < set(device_names())
    assert list(device_names()) == sorted(device_names())


@pytest.mark.parametrize("name", device_names())
def test_a_device_file_is_complete(name: str) -> None:
    found = load_device(name)
    assert found.name == name
    assert found.title
    assert found.sources
    assert set(found.flops) == set(DTYPES)
    assert all(peak > 0 for peak in found.flops.values())
    assert found.bandwidth > 0
    assert found.launch_ms > 0
    assert found.strided_views == (name != "cpu")


def test_f32_is_plain_single_precision() -> None:
    # With TF32 the peak would be 156 and 494 TFLOP/s.
    assert load_device("a100").flops["f32"] == 19.5e12
    assert load_device("h100").flops["f32"] == 67e12


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(UnknownDeviceError) as caught:
        load_device("h10")
    assert str(caught.value) == (
        "unknown device `h10`: devices are a10, a100, b200, cpu, h100, h200, l4, l40s, mi300x, rtx4090, rtx5090, t4, "
        "and cuda\n  = hint: did you mean `h100`?"
    )
    with pytest.raises(UnknownDeviceError, match=r"unknown device `\.\./h100`: "):
        load_device("../h100")


def test_what_a_device_file_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = json.loads(device.DEVICES.joinpath("a100.json").read_text(encoding="utf-8"))
    del data["bandwidth"], data["flops"]["bf16"]
    (tmp_path / "mine.json").write_text(json.dumps(data), encoding="utf-8")
    monkeypatch.setattr(device, "DEVICES", tmp_path)
    with pytest.raises(UnknownDeviceError) as caught:
        load_device("mine")
    expected = "tensat_dl/cost/devices/mine.json has no `bandwidth`, no `flops` of bf16"
    assert str(caught.value) == expected
