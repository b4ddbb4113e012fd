"""vkattn.devices and vkattn.Device."""
from . import _native
from ._native import Device

Device.__module__ = "vkattn"


def devices():
    """The Vulkan devices of this machine in the order of their numbers: a list of Device, empty without a driver.

        >>> vkattn.devices()
        [<vkattn.Device 0: llvmpipe (LLVM 19.1.7, 256 bits) - CPU>]
    """
    return _native.devices()
