#!/usr/bin/python3
"""Makes the first inputs of the fuzz targets.

    tests/fuzz/make_corpus.py FOLDER               writes them to FOLDER/TARGET/
    tests/fuzz/make_corpus.py --keep FOLDER        makes FOLDER's files the first inputs of c_interface

The first inputs of c_interface are sequences of calls that libFuzzer found. Each reaches code that no other reaches, selected
with -merge=1 -use_counters=0 -set_cover_merge=1. They are in c_interface.tar.
"""
import io
import json
import pathlib
import struct
import sys
import tarfile

CALLS = pathlib.Path(__file__).parent / "c_interface.tar"
DEVICES = pathlib.Path(__file__).parents[2] / "packaging/devices"


def write(target, name, data):
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def npy(descr, shape, data, order=False, version=(1, 0)):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    length_bytes = 2 if version == (1, 0) else 4
    header += " " * (-(len(header) + 9 + length_bytes) % 64) + "\n"
    length = len(header).to_bytes(length_bytes, "little")
    return b"\x93NUMPY" + bytes(version) + length + header.encode() + data


def make_npy():
    floats = struct.pack("<6f", 0, 1, -2.5, 1e30, float("inf"), float("nan"))
    write("npy", "float32", npy("<f4", (2, 3), floats))
    write("npy", "float16", npy("<f2", (3,), bytes(6)))
    write("npy", "float64_big_endian", npy(">f8", (2,), struct.pack(">2d", 1.5, 1e300)))
    write("npy", "fortran_order", npy("<f4", (3, 2), floats, True, (2, 0)))
    write("npy", "int32", npy("<i4", (3,), struct.pack("<3i", 0, 5, 9)))
    write("npy", "int64", npy("<i8", (2,), struct.pack("<2q", 0, -1), version=(3, 0)))
    write("npy", "uint64", npy("<u8", (1,), b"\xff" * 8))
    write("npy", "uint8", npy("|u1", (2, 2), bytes(4)))
    write("npy", "bool", npy("|b1", (2, 0), b""))
    write("npy", "scalar", npy("<f4", (), bytes(4)))
    write("npy", "truncated", npy("<f4", (2, 3), floats)[:-1])


def make_problem():
    for number, text in enumerate([
            "b1 hq32 hkv8 q1 kv4096 d128 f16 causal align=bottom-right",
            "b2 hq4 hkv2 33x40 d32 dv16 query=bf16 cache=q8_0 output=f32 lse causal",
            "h8 512x512 d64 mask=f16 softcap=50 alibi window=127,0 sinks dropout=0.1",
            "b2 512x512 d64 sequences query_lengths=9,512 kv_lengths=512,3 page=16",
            "q1 kv4096 hq8 hkv2 d128 ring=256 append=1 rotary=half weights=scores",
            "b3 7x9 d8 key=e4m3 value=q4_0 layout=bshd pad=3 offset=5 seed=7 data=uniform magnitude=2 scale=0.5",
            "5x5x12 matmul"]):
        write("problem", f"{number}", text)


def make_tuning():
    attention = {"batch": 1, "query_heads": 8, "kv_heads": 8, "query_length": 512, "kv_length": 512, "head_dim": 64,
                 "value_dim": 64, "query_type": "f16", "key_type": "f16", "value_type": "f16", "output_type": "f16",
                 "causal": False, "window_left": -1, "window_right": -1}
    tile = {"threads": 256, "columns": 16, "rows": 4, "keys": 4, "dims": 32}
    entry = {"problem": "h8 512x512 d64 f16", "attention": attention, "features": {}, "kernel": "tile", "tile": tile,
             "kv_splits": 3, "median_ns": 1000, "default_kernel": "lane", "default_median_ns": 2000}
    decode = dict(entry, problem="q1", kernel="lane", tile={"rows": 1, "keys": 8}, features={"softcap": 0},
                  attention=dict(attention, kv_heads=2, query_length=1, kv_length=4096, head_dim=128, value_dim=128))
    backward = {"problem": "backward", "backward": attention, "features": {}, "kernel": "lane", "chunk_keys": 128,
                "median_ns": 1000, "default_kernel": "lane", "default_median_ns": 2000}
    matmul = {"problem": "matmul", "matmul": {"batch": 1, "rows": 512, "columns": 512, "inner": 512, "a_type": "f32",
                                              "b_type": "f32", "output_type": "f32", "a_is_ones": False,
                                              "a_transposed": False, "b_transposed": False},
              "kernel": "tile", "tile": {"threads": 64, "rows": 4, "columns": 4, "inner": 16}, "inner_splits": 2,
              "median_ns": 1000, "default_kernel": "lane", "default_median_ns": 2000}
    device = {"name": "A device", "vendor_id": 0x1234, "device_id": 7, "driver_version": 42, "driver": "its driver",
              "problems": [entry, decode]}
    other = dict(device, name="Another", driver_version=1, problems=[])
    others = dict(device, problems=[backward, matmul])
    for name, devices in {"one": [device], "two": [other, device], "others": [others], "none": []}.items():
        write("tuning", name, json.dumps({"format": "vkattn tuning", "version": 3, "devices": devices}))


def make_capabilities():
    for file in sorted(DEVICES.glob("*.json")):
        text = json.loads(file.read_text(encoding="utf-8"))
        write("capabilities", file.stem, json.dumps(text, separators=(",", ":")))
    write("capabilities", "least", '{"capabilities_version":1,"devices":[{},{"rejected":"old"}]}')


def make_self_tests():
    first = "vkattn self-tests 2\n"
    name = "matrix f16 dims 64"
    write("self_tests", "empty", first)
    write("self_tests", "all", first + f"passed a\nbegun b\nfailed {name}\twrong at row 3\ntimed c\t1234\n")
    write("self_tests", "begun", first + f"begun {name}\nbegun a\n")
    write("self_tests", "timed", first + f"timed {name}\t18446744073709551615\ntimed a\t0\n")
    write("self_tests", "torn", first + f"passed {name}\npassed a")
    write("self_tests", "other_version", f"vkattn self-tests 1\npassed {name}\n")


def make_pipeline_cache():
    header = b"vkattnP1" + struct.pack("<4I", 0x1234, 7, 42, 0) + bytes(16) + bytes(16)
    write("pipeline_cache", "repaired", b"\x01" + header + b"data of a driver")
    write("pipeline_cache", "repaired_empty", b"\x01" + header)
    write("pipeline_cache", "torn", b"\x00" + header + b"data of a driver")
    write("pipeline_cache", "none", b"\x00")
    write("pipeline_cache", "other_device", b"\x01" + header[:12] + b"\x08" + header[13:])


def make_safetensors():
    def file(header, data):
        text = header if isinstance(header, str) else json.dumps(header)
        return struct.pack("<Q", len(text)) + text.encode() + data

    def tensor(dtype, shape, begin, end):
        return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}

    two = {"__metadata__": {"format": "pt", "step": "7"}, "a.weight": tensor("F32", [2, 3], 0, 24),
           "b": tensor("BF16", [2], 24, 28)}
    write("safetensors", "two", file(two, bytes(28)))
    write("safetensors", "torn", file(two, bytes(27)))
    write("safetensors", "padded", file(json.dumps({"h": tensor("F16", [4], 0, 8)}) + "    ", bytes(8)))
    write("safetensors", "none", file({}, b""))
    write("safetensors", "scalar", file({"s": tensor("F64", [], 0, 8), "none": tensor("I64", [0, 3], 8, 8)}, bytes(8)))
    write("safetensors", "small", file({"m": tensor("BOOL", [1], 0, 1), "e": tensor("F8_E4M3", [1], 1, 2)}, bytes(2)))
    write("safetensors", "overlap", file({"a": tensor("U8", [4], 0, 4), "b": tensor("U8", [4], 2, 6)}, bytes(6)))
    write("safetensors", "hole", file({"a": tensor("I8", [4], 0, 4), "b": tensor("I16", [1], 6, 8)}, bytes(8)))
    write("safetensors", "twice", file('{"a":{},"a":{}}', b""))
    write("safetensors", "names", file({"\u00fc \"\\\n": tensor("U32", [1], 0, 4)}, bytes(4)))
    write("safetensors", "large", file({"a": tensor("U64", [2**32, 2**32, 0], 0, 0)}, b""))
    write("safetensors", "deep", file('{"a":' * 30, b""))
    write("safetensors", "longest", struct.pack("<Q", 100_000_001) + b"{}")


def make_score_function():
    texts = {
        "prefix": "bool visible(Position p) { return p.key <= p.query || p.key < uint(table(p.batch)); }\n",
        "bias": "float score(float s, Position p) {\n  int distance = clamp(int(p.key) - int(p.query), -128, 128);\n"
                "  return s + bias(int(p.head) * 257 + distance + 128);\n}\n",
        "both": "// every third\n#define THIRD 3\nconst float kFall[2] = float[2](0.5, 1.5e-1);\n"
                "struct Pair { float first; vec3 second[2]; };\n"
                "float helper(in Pair pair, out float r) { r = pair.second[1].yz.x; for (int i = 0; i < 2; ++i) r += kFall[i]; return r; }\n"
                "bool visible(Position p) { switch (p.head) { case 0u: return true; default: return p.key % THIRD == 0; } }\n"
                "float score(float s, Position p) { Pair t; t.first = s; t.second[0] = vec3(1, 2, 3); float r; return helper(t, r); }\n",
        "continued": "#define TWO\\\n 2.0\nfloat score(float s, Position p) { return s + TWO\\\n* float(p.key); }\n",
        "stray": "#define TWO 2.0\nfloat score(float s, Position p) { return s + TWO\\\\\n\n* float(p.key); }\n",
        "conditions": "#ifdef NOWHERE\nint score(int s) { return 1; }\n#elif 1 + 2 == 3\n"
                      "#define F(n) float n(float s, Position p) { return s; }\n/* \u00e4 */ F(score)\n#else\n#error no\n#endif\n",
        "refused": "layout(binding = 3) buffer B { float x; };\nvoid main() { barrier(); }\n",
        "unclosed": "bool visible(Position p) { if (p.key > 3u) {\n",
    }
    for name, text in texts.items():
        write("score_function", name, text)


def make_c_interface():
    with tarfile.open(CALLS) as archive:
        for member in archive:
            write("c_interface", member.name, archive.extractfile(member).read())


def keep(folder):
    """Leaves date and owner out of the archive, so that the same files give the same bytes."""
    with tarfile.open(CALLS, "w", format=tarfile.USTAR_FORMAT) as archive:
        for file in sorted(folder.iterdir()):
            data = file.read_bytes()
            member = tarfile.TarInfo(file.name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


if len(sys.argv) == 3 and sys.argv[1] == "--keep":
    keep(pathlib.Path(sys.argv[2]))
elif len(sys.argv) == 2 and not sys.argv[1].startswith("-"):
    corpus = pathlib.Path(sys.argv[1])
    for make in (make_npy, make_problem, make_tuning, make_capabilities, make_self_tests, make_pipeline_cache, make_safetensors,
                 make_score_function, make_c_interface):
        make()
else:
    sys.exit(__doc__)
