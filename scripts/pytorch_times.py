"""Times attention, gradients and products of PyTorch and of `vkattn bench` on one device, and writes them side by side.

For scripts/compare-pytorch, measure-gpu and measure-peers. PyTorch is 2.5 or later. Without it `torch` is None, NO_TORCH says
why, and only vkattn can be timed.
"""
import contextlib
import json
import math
import os
import re
import statistics
import subprocess
import time
import warnings

NO_TORCH = ""


def first_line(error):
    """An exception's first line, or its type."""
    words = str(error).strip().splitlines()
    return words[0] if words else type(error).__name__


def is_old(version):
    """Whether PyTorch's attention lacks enable_gqa, which 2.5 has."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) < (2, 5)


try:
    import torch
    if is_old(torch.__version__):
        NO_TORCH = f"PyTorch {torch.__version__} is older than 2.5"
        torch = None
    else:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention
except ModuleNotFoundError as missing:
    torch = None
    NO_TORCH = ("PyTorch 2.5 or later is not installed for this Python" if missing.name == "torch"
                else f"PyTorch cannot be imported: {first_line(missing)}")
except (ImportError, OSError) as broken:  # an OSError: a library of CUDA is missing
    torch = None
    NO_TORCH = f"PyTorch cannot be imported: {first_line(broken)}"

TYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}  # PyTorch's names
# The largest error against float64 that is right: it is due to rounding the output and, in 16 bits, the probabilities.
TOLERANCES = {"f32": 1e-4, "f16": 4e-3, "bf16": 3e-2}
BACK_ENDS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}
CHECKED_ROWS = 8
WARM_UP_SECONDS = 1.0

# batch, query heads, kv heads, query length, kv length, head dim, type, causal.
# Causal problems are square, so that PyTorch's top-left alignment is also bottom-right.
GPU_SHAPES = [
    (4, 32, 32, 4096, 4096, 128, "f16", False),
    (4, 32, 32, 4096, 4096, 128, "f16", True),
    (4, 32, 32, 16384, 16384, 128, "f16", False),
    (4, 32, 32, 16384, 16384, 128, "f16", True),
    (4, 32, 32, 4096, 4096, 64, "f16", False),
    (4, 32, 32, 4096, 4096, 128, "bf16", False),
    (1, 32, 8, 4096, 4096, 128, "f32", False),
    (1, 32, 8, 1, 4096, 128, "f16", False),
    (1, 32, 8, 1, 32768, 128, "f16", False),
    (1, 32, 8, 1, 131072, 128, "f16", False),
    (8, 32, 8, 1, 32768, 128, "f16", False),
]
CPU_SHAPES = [
    (1, 8, 8, 1024, 1024, 64, "f32", False),
    (1, 8, 8, 1024, 1024, 128, "f32", False),
    (1, 8, 8, 2048, 2048, 64, "f32", True),
    (1, 8, 8, 1024, 1024, 64, "bf16", False),
    (1, 32, 8, 1, 4096, 128, "f16", False),
]
# The same fields, for gradients.
GPU_BACKWARD_SHAPES = [
    (4, 16, 16, 1024, 1024, 64, "f16", True),
    (4, 32, 32, 4096, 4096, 64, "f16", True),
    (4, 32, 32, 4096, 4096, 128, "f16", False),
    (4, 32, 32, 4096, 4096, 128, "f16", True),
    (4, 32, 32, 4096, 4096, 128, "bf16", True),
    (4, 32, 8, 4096, 4096, 128, "f16", True),
    (1, 32, 8, 4096, 4096, 128, "f32", False),
]
CPU_BACKWARD_SHAPES = [
    (1, 8, 8, 512, 512, 64, "f32", False),
    (1, 8, 8, 512, 512, 64, "f32", True),
    (1, 8, 2, 512, 512, 64, "bf16", True),
    (1, 8, 8, 512, 512, 64, "f16", False),
]
# Rows, columns, inner size, type.
GPU_MATMUL_SHAPES = [
    (size, size, size, type_name) for type_name in ("f16", "bf16", "f32") for size in (1024, 4096, 8192)
] + [(4096, 12288, 4096, "f16"), (16, 4096, 4096, "f16")]
CPU_MATMUL_SHAPES = [(512, 512, 512, type_name) for type_name in ("f16", "bf16", "f32")] + [(16, 1024, 1024, "f32")]


class NoReport(SystemExit):
    """vkattn gave no report: it crashed, hung or refused its arguments. Ends a script that does not catch it."""


def typed(tensor, type_name):
    return tensor.to(getattr(torch, TYPES[type_name]))


class Attention:
    """The forward pass."""
    back_ends = BACK_ENDS

    def __init__(self, batch, query_heads, kv_heads, query_length, kv_length, head_dim, type_name, causal):
        self.batch, self.query_heads, self.kv_heads = batch, query_heads, kv_heads
        self.query_length, self.kv_length, self.head_dim = query_length, kv_length, head_dim
        self.type_name, self.causal = type_name, causal

    def problem(self):
        """The problem in vkattn's words."""
        heads = f"h{self.query_heads}"
        if self.kv_heads != self.query_heads:
            heads = f"hq{self.query_heads} hkv{self.kv_heads}"
        lengths = f"{self.query_length}x{self.kv_length}"
        causal = " causal" if self.causal else ""
        return f"b{self.batch} {heads} {lengths} d{self.head_dim} {self.type_name}{causal}"

    def tensors(self, device):
        """Query, key and value, drawn as vkattn draws them: normal, rounded to the type."""
        generator = torch.Generator(device).manual_seed(1)

        def draw(heads, length):
            size = (self.batch, heads, length, self.head_dim)
            return typed(torch.randn(size, generator=generator, device=device), self.type_name)

        keys = draw(self.kv_heads, self.kv_length), draw(self.kv_heads, self.kv_length)
        return draw(self.query_heads, self.query_length), *keys

    def calls(self, device):
        """The call to time, and a function that gives the error of its result."""
        query, key, value = self.tensors(device)

        def call():
            return self.attend(query, key, value)

        return call, lambda output: self.largest_error(query, key, value, output)

    def attend(self, query, key, value):
        grouped = self.kv_heads != self.query_heads
        return scaled_dot_product_attention(query, key, value, is_causal=self.causal, enable_gqa=grouped)

    def weights(self, query, key, rows):
        """Attention weights of some rows, in float64."""
        scores = query.double() @ key.double().mT / math.sqrt(self.head_dim)
        if self.causal:
            columns = torch.arange(self.kv_length, device=query.device)
            scores = scores.masked_fill(columns[None, :] > rows[:, None], -math.inf)
        return torch.softmax(scores, dim=-1)

    def largest_error(self, query, key, value, output):
        """Compares a few rows of the last head of the last batch entry with float64."""
        rows = torch.linspace(0, self.query_length - 1, min(CHECKED_ROWS, self.query_length)).long().to(query.device)
        expected = self.weights(query[-1, -1][rows], key[-1, -1], rows) @ value[-1, -1].double()
        return (output[-1, -1][rows].double() - expected).abs().max().item()


class Backward(Attention):
    """The gradients of Q, K and V, timed without the forward pass."""

    def problem(self):
        return super().problem() + " backward"

    def calls(self, device):
        inputs = [tensor.requires_grad_() for tensor in self.tensors(device)]
        output = self.attend(*inputs)
        generator = torch.Generator(device).manual_seed(2)
        grad_output = torch.randn(output.shape, generator=generator, device=device).to(output.dtype)

        def call():
            return torch.autograd.grad(output, inputs, grad_output, retain_graph=True)

        return call, lambda gradients: self.largest_gradient_error(inputs, grad_output, gradients)

    def largest_gradient_error(self, inputs, grad_output, gradients):
        """Compares the gradients of the last batch entry's last KV head and of its query heads with autograd in float64,
        relative to the largest element of each gradient."""
        group = self.query_heads // self.kv_heads
        heads = (group, 1, 1)  # how many heads of Q, K and V
        query, key, value = (tensor[-1, -count:].detach().double().requires_grad_() for tensor, count in zip(inputs, heads))
        rows = torch.arange(self.query_length, device=query.device)
        output = self.weights(query, key, rows) @ value
        expected = torch.autograd.grad(output, (query, key, value), grad_output[-1, -group:].double())
        errors = []
        for got, wanted, count in zip(gradients, expected, heads):
            errors.append((got[-1, -count:].double() - wanted).abs().max().item() / wanted.abs().max().item())
        return max(errors, key=lambda error: error if math.isfinite(error) else math.inf)


class Matmul:
    """A product of two matrices."""
    back_ends = {"matmul": None}

    def __init__(self, rows, columns, inner, type_name):
        self.rows, self.columns, self.inner, self.type_name = rows, columns, inner, type_name

    def problem(self):
        return f"matmul {self.rows}x{self.columns}x{self.inner} {self.type_name}"

    def calls(self, device):
        generator = torch.Generator(device).manual_seed(1)

        def draw(rows, columns):
            return typed(torch.randn((rows, columns), generator=generator, device=device), self.type_name)

        a, b = draw(self.rows, self.inner), draw(self.inner, self.columns)
        return lambda: torch.matmul(a, b), lambda output: self.largest_error(a, b, output)

    def largest_error(self, a, b, output):
        """Compares a few rows with float64, relative to sqrt(inner), by which a sum of so many products grows."""
        rows = torch.linspace(0, self.rows - 1, min(CHECKED_ROWS, self.rows)).long().to(a.device)
        expected = a[rows].double() @ b.double()
        return (output[rows].double() - expected).abs().max().item() / math.sqrt(self.inner)


def time_once(device, call):
    """Seconds of one execution, by the device's own clock if it has one."""
    if device == "cpu":
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3


def warm_up(device, call):
    """Calls until the GPU's clock has risen; at least once."""
    end = time.perf_counter() + WARM_UP_SECONDS
    while True:
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        if time.perf_counter() >= end:
            return


def time_pytorch(shape, device, repeat):
    """{back end: median seconds, or why it was not timed}."""
    results = {}
    for name, back_end in shape.back_ends.items():
        try:
            with sdpa_kernel(getattr(SDPBackend, back_end)) if back_end else contextlib.nullcontext():
                call, error_of = shape.calls(device)
                error = error_of(call())
                if not error <= TOLERANCES[shape.type_name]:
                    results[name] = f"wrong by {error:.2g}"
                    continue
                warm_up(device, call)
                results[name] = statistics.median(time_once(device, call) for _ in range(repeat))
        except Exception as error:  # whatever it is, the figures of vkattn and of the other back ends stay
            results[name] = first_line(error)
    return results


def run_tool(command, patience, environment=None):
    """The finished process. The command has `patience` seconds, if that is not None."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False, timeout=patience,
                              env={**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        raise NoReport(f"{' '.join(command)} was ended after {patience:.0f} s") from None
    except OSError as error:
        raise NoReport(f"{command[0]} does not run: {error.strerror}") from None


def time_vkattn(tool, shape, arguments, with_peaks, kernel="", tile="", environment=None):
    """vkattn's report on the problem, a shape or its words, in these block sizes, with variables added to the environment.

    The tool has `arguments.patience` seconds, if that is not None.
    """
    problem = shape if isinstance(shape, str) else shape.problem()
    command = [tool, "bench", problem, "--json", "--repeat", str(arguments.repeat), "--max-seconds", "60"]
    if not with_peaks:
        command.append("--no-peaks")
    if kernel or arguments.kernel:
        command += ["--kernel", kernel or arguments.kernel]
    if tile:
        command += ["--tile", tile]
    if arguments.vulkan_device:
        command += ["--device", arguments.vulkan_device]
    run = run_tool(command, arguments.patience, environment)
    try:
        return json.loads(run.stdout)
    except json.JSONDecodeError:
        raise NoReport(f"{' '.join(command)} gave no report, exit code {run.returncode}: {run.stderr.strip()}") from None


def table_head():
    """The head of result_line()'s table: times of PyTorch are in ms too."""
    return (f"{'problem':<41} {'kernel':<11} {'vkattn':>10} {'TFLOP/s':>7} {'GB/s':>6} {'of copy':>7} {'flash ms':>8} {'ratio':>6} "
            f"{'best ms':>8} {'':<9} {'ratio':>6}")


def peer_columns(name, peers, milliseconds):
    """A back end's time, and its ratio to vkattn's time."""
    seconds = peers.get(name)
    if not isinstance(seconds, float):
        return f" {'-':>8}", f" {'-':>6}"
    return f" {seconds * 1e3:>8.3g}", f" {seconds * 1e3 / milliseconds:>6.3g}"


def result_line(row, copy_rate, peers):
    """A problem's row, with PyTorch's flash and fastest back ends; `copy_rate` is 0 if it is not known."""
    if row["outcome"] != "measured":
        return f"{row['problem']:<41} {row['kernel'] or '-':<11} {row['outcome']}: {row['message']}"
    of_copy = f"{row['gbytes_per_second'] * 1e9 / copy_rate:.1%}" if copy_rate else "-"
    timed = {name: seconds for name, seconds in peers.items() if isinstance(seconds, float)}
    fastest = min(timed, key=timed.get) if timed else ""
    flash, flash_ratio = peer_columns("flash", peers, row["median_ms"])
    best, best_ratio = peer_columns(fastest, peers, row["median_ms"])
    return (f"{row['problem']:<41} {row['kernel']:<11} {row['median_ms']:>7.3g} ms {row['gflops_per_second'] * 1e-3:>7.3g} "
            f"{row['gbytes_per_second']:>6.4g} {of_copy:>7}{flash}{flash_ratio}{best} {fastest:<9}{best_ratio}")


def silence_pytorch():
    warnings.simplefilter("ignore")  # the JSON file has each reason why a back end refuses a shape
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # computes float32 as float32
