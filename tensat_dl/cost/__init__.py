"""Costs: the time of each operator application on a device, measured if a profile has it, else estimated."""

from tensat_dl.cost.device import Device, UnknownDeviceError, device_names, load_device
from tensat_dl.cost.model import CostModel, PricedGraph, UnpricedError
from tensat_dl.cost.profile import Measurement, Profile, ProfileError, find_profile, read_profile, record
from tensat_dl.cost.signature import Signature, SignatureError

__all__ = [
    "CostModel",
    "Device",
    "Measurement",
    "PricedGraph",
    "Profile",
    "ProfileError",
    "Signature",
    "SignatureError",
    "UnknownDeviceError",
    "UnpricedError",
    "device_names",
    "find_profile",
    "load_device",
    "read_profile",
    "record",
]
