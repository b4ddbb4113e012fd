"""The problems of scripts/measure-gpu, by steps. Figures that are needed most come first."""
import pytorch_times
from pytorch_times import Attention, Backward, Matmul

FORWARD_PARTS = ("softmax", "rescale", "loads")
# Problem, kernel, block sizes, and the parts that are left out, one at a time.
GPU_ABLATIONS = [
    ("b4 h32 4096x4096 d128 f16", "matrix2", "", FORWARD_PARTS),
    ("b4 h32 4096x4096 d128 f16", "matrix2", "subgroups=8,columns=4,rows=16,keys=64", (*FORWARD_PARTS, "barriers")),
    ("b4 h32 4096x4096 d128 f16", "matrix2", "subgroups=8,rows=16,keys=64", (*FORWARD_PARTS, "barriers")),
    ("matmul 4096x4096x4096 f16", "matrix", "", ("loads", "barriers")),
    ("matmul 4096x4096x4096 f16", "matrix", "subgroups=4,rows=64,columns=64,inner=32,stages=2", ("loads", "barriers")),
    ("b4 h32 4096x4096 d64 f16", "matrix2", "", FORWARD_PARTS),
    ("b4 h32 4096x4096 d64 f16", "matrix2", "subgroups=8,columns=4,rows=16,keys=128", (*FORWARD_PARTS, "barriers")),
    ("b4 h32 4096x4096 d128 f16 backward", "matrix2", "", FORWARD_PARTS),
    ("b4 h32 4096x4096 d128 f16", "matrix", "", (*FORWARD_PARTS, "barriers")),
    ("matmul 8192x8192x8192 f16", "matrix", "", ("loads", "barriers")),
]
# Large scores, so that references and units rise and the rescaling is seen. Lengths of several steps.
CPU_ABLATIONS = [
    ("h2 128x256 d32 f16 scale=4", "matrix2", "", (*FORWARD_PARTS, "barriers")),
    ("h2 128x256 d32 f16 scale=4", "matrix2", "subgroups=2,columns=8,rows=8,keys=16", (*FORWARD_PARTS, "barriers")),
    ("h2 128x256 d32 f16 scale=4", "matrix", "", (*FORWARD_PARTS, "barriers")),
    ("h1 128x256 d32 f16 scale=4 backward", "matrix2", "", FORWARD_PARTS),
    ("matmul 128x128x256 f16", "matrix", "", ("loads", "barriers")),
    ("matmul 128x128x256 f16", "matrix", "subgroups=4,rows=16,columns=16,inner=8,stages=2", ("loads", "barriers")),
]

# All take about 10 minutes on a large GPU. The default is 8 minutes, so the order tells what is left out there.
GPU_STEPS = {
    "forward": [Attention(4, 32, 32, length, length, head_dim, "f16", causal)
                for length, head_dim, causal in ((4096, 128, False), (4096, 64, False), (16384, 128, False),
                                                 (4096, 128, True), (4096, 64, True), (16384, 64, False), (16384, 128, True))],
    "decode": [Attention(1, 32, 8, 1, keys, 128, "f16", False) for keys in (4096, 32768, 131072)],
    "backward": [Backward(4, 32, 32, 4096, 4096, head_dim, "f16", True) for head_dim in (128, 64)] +
                [Backward(4, 32, 32, 4096, 4096, 128, "f16", False)],
    "products": [Matmul(size, size, size, "f16") for size in (4096, 8192, 1024)] +
                [Matmul(4096, 12288, 4096, "f16"), Matmul(16, 4096, 4096, "f16")],
    "combine": [Attention(1, 32, 8, 1, keys, 128, "f16", False) for keys in (4096, 32768, 131072)],
    "lanes": [Attention(4, 32, 32, 4096, 4096, head_dim, "f16", causal)
              for head_dim, causal in ((128, False), (64, False), (128, True), (64, True))],
    "ahead": [Attention(1, 32, 8, 1, keys, 128, "f16", False) for keys in (4096, 32768, 131072)],
    "staged": [Backward(4, 32, 32, 4096, 4096, head_dim, "f16", True) for head_dim in (128, 64)],
    "stages": [Matmul(size, size, size, "f16") for size in (4096, 8192)] + [Matmul(4096, 12288, 4096, "f16")],
    "ablations": GPU_ABLATIONS,
    "others": [Attention(4, 32, 32, 4096, 4096, 128, "bf16", False), Attention(1, 32, 8, 4096, 4096, 128, "f32", False)],
    "tiles": ["b4 h32 4096x4096 d128 f16", "b4 h32 4096x4096 d64 f16", "b1 hq32 hkv8 1x4096 d128 f16",
              "matmul 4096x4096x4096 f16", "b4 h32 4096x4096 d128 f16 causal backward"],
    "long-lanes": [Attention(4, 32, 32, 16384, 16384, head_dim, "f16", False) for head_dim in (128, 64)],
}
CPU_STEPS = {
    "forward": [Attention(1, 2, 2, 256, 256, 64, "f32", False)],
    "decode": [Attention(1, 8, 2, 1, 512, 64, "f16", False)],
    "backward": [Backward(1, 1, 1, 128, 128, 32, "f32", False)],
    "products": [Matmul(256, 256, 256, "f32")],
    "combine": [Attention(1, 8, 2, 1, 512, 64, "f16", False), Attention(1, 1, 1, 1, 4096, 64, "f16", False)],  # one part, several
    "lanes": [Attention(1, 2, 2, 64, 64, 64, "f16", False)],
    "ahead": [Attention(1, 8, 2, 1, 512, 64, "f16", False)],
    "staged": [Backward(1, 1, 1, 64, 64, 32, "f16", True)],
    "stages": [Matmul(128, 128, 256, "f16")],
    "ablations": CPU_ABLATIONS,
    "tiles": ["h2 128x128 d32 f32"],
}

# Steps that time a kernel in several block sizes: title, kernel, and the sizes by dims of a head, the default (none) first.
# lanes: sizes with numbers of rows in lanes, 4 of which share a row on NVIDIA's GPUs, beside the same sizes with these numbers in
# matrices; with dims the scores of a tile are computed before the softmax of the tile before it.
# ahead: decode; with dims the keys of the next step are in flight while one is computed.
# staged: gradients whose passes stage one copy of the visited rows in shared memory.
# stages: products that stage the next step's operands in a second buffer, beside the same blocks with one.
TILES = {
    "lanes": ("matrix2, numbers of rows in lanes", "matrix2", {
        128: ["", "subgroups=8,rows=16,keys=64", "subgroups=8,columns=4,rows=16,keys=64",
              "subgroups=8,columns=4,rows=16,keys=64,dims=128", "subgroups=4,columns=4,rows=32,keys=32",
              "subgroups=4,columns=4,rows=16,keys=64"],
        64: ["", "subgroups=8,rows=16,keys=128", "subgroups=8,columns=4,rows=16,keys=128",
             "subgroups=4,columns=4,rows=32,keys=64", "subgroups=4,columns=4,rows=32,keys=32",
             "subgroups=4,columns=4,rows=32,keys=32,dims=64", "subgroups=8,columns=4,rows=16,keys=64",
             "subgroups=8,columns=4,rows=16,keys=64,dims=128"]}),
    "ahead": ("decode, keys read a step ahead", "decode", {
        128: ["", "threads=128,rows=2,keys=2,dims=256", "threads=128,rows=2,keys=4", "threads=128,rows=2,keys=4,dims=256"]}),
    "staged": ("gradients of matrix2, staged once", "matrix2", {
        128: ["", "subgroups=4,rows=16,keys=32", "subgroups=2,rows=16,keys=32"],
        64: ["", "subgroups=4,rows=32,keys=32", "subgroups=4,rows=32,keys=64", "subgroups=4,rows=16,keys=64"]}),
    "stages": ("products by matrix, in stages by turns", "matrix", {
        0: ["", "subgroups=4,rows=64,columns=64,inner=32", "subgroups=4,rows=64,columns=64,inner=32,stages=2",
            "subgroups=4,rows=64,columns=32,inner=32,stages=2", "subgroups=4,rows=64,columns=64,inner=16,stages=2"]}),
}
TILES["long-lanes"] = TILES["lanes"]
# The same on lavapipe, whose 8 lanes share all rows.
CPU_TILES = {
    "lanes": ["", "subgroups=2,rows=8,keys=16", "subgroups=2,columns=8,rows=8,keys=16",
              "subgroups=2,columns=8,rows=16,keys=16", "subgroups=2,columns=8,rows=16,keys=16,dims=64"],
    "ahead": ["", "threads=128,rows=2,keys=4", "threads=128,rows=2,keys=4,dims=256"],
    "staged": ["", "subgroups=1,rows=16,keys=32", "subgroups=4,rows=16,keys=16"],
    "stages": ["", "subgroups=4,rows=16,columns=16,inner=8", "subgroups=4,rows=16,columns=16,inner=8,stages=2"],
}


def words_of(problem):
    """A problem of a step: words, a shape, or a case of ablations."""
    if isinstance(problem, tuple):
        return " ".join(word for word in problem[:3] if word) + " without " + ", ".join(problem[3])
    return problem if isinstance(problem, str) else problem.problem()


def tiles_of(step, shape, device):
    """The block sizes in which a step times a shape."""
    return CPU_TILES[step] if device == "cpu" else TILES[step][2][getattr(shape, "head_dim", 0)]
