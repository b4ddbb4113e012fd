#!/usr/bin/python3
"""Writes weights.safetensors beside this script with the format's own library, for tests/unit/safetensors_test.cpp.

    apt-get install python3-safetensors        Debian 13 has 0.5.2
    tests/golden/make_safetensors.py [FOLDER]
"""
import pathlib
import struct
import sys

import safetensors

TENSORS = {
    "layer.weight": ("float32", [2, 3], struct.pack("<6f", 0, 1, -2.5, 1e30, 0.1, -0.0)),
    "layer.bias": ("float32", [3], struct.pack("<3f", 1, 2, 3)),
    "half": ("float16", [2, 2], struct.pack("<4e", 1.5, -65504, 2**-24, 0)),
    "brain": ("bfloat16", [2], bytes([0x80, 0x3f, 0x49, 0xc0])),  # 1 and -3.140625
    "scalar": ("float64", [], struct.pack("<d", 0.5)),
    "empty": ("float32", [0, 4], b""),
    "steps": ("int64", [2], struct.pack("<2q", -1, 2**40)),
    "mask": ("bool", [3], bytes([1, 0, 1])),
    "ü \"quoted\" \\ \n": ("uint8", [1], bytes([255])),
}
folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
data = safetensors.serialize({name: {"dtype": dtype, "shape": shape, "data": data}
                              for name, (dtype, shape, data) in TENSORS.items()}, {"format": "pt"})
(folder / "weights.safetensors").write_bytes(data)
