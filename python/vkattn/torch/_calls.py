"""Counts who computed the calls and why, and says it."""
import sys
import threading
import warnings

DEVICE = "device"
GRADIENTS = "device, gradients"

_lock = threading.Lock()
_counts = {}
_said = set()
_says_each = False


def calls(clear=False):
    """How often vkattn and PyTorch computed attention in this process, by reason: a dict.

    'device'             calls that vkattn computed
    'device, gradients'  backward passes that vkattn computed
    any other key        why PyTorch computed a call, or the gradients of one

    A compiled or traced graph counts each run on the device; what it leaves to PyTorch counts once, when it is made.
    clear: begin at 0 again.
    """
    with _lock:
        counts = dict(_counts)
        if clear:
            _counts.clear()
            _said.clear()
    return counts


def verbose(on=True):
    """Prints a line for each call to the standard error stream: its shapes, and who computes it and why."""
    global _says_each
    _says_each = bool(on)


def _count(reason):
    with _lock:
        _counts[reason] = _counts.get(reason, 0) + 1


def _shapes(tensors):
    given = ", ".join(str(tuple(getattr(x, "shape", ()))) for x in tensors[:3])  # also of what PyTorch will refuse
    return f"{given} {str(getattr(tensors[0], 'dtype', '')).removeprefix('torch.')}"


def on_device(what, *tensors):
    """Tells of a call that vkattn computes: DEVICE or GRADIENTS."""
    _count(what)
    if _says_each:
        print(f"vkattn: {what}: {_shapes(tensors)}", file=sys.stderr)


def by_pytorch(reason, *tensors):
    """Tells of a call that PyTorch computes; warns once for each reason."""
    _count(reason)
    if _says_each:
        print(f"vkattn: PyTorch: {reason}: {_shapes(tensors)}", file=sys.stderr)
    with _lock:
        is_new = reason not in _said
        _said.add(reason)
    if is_new:
        warnings.warn(f"PyTorch computes this attention, not vkattn: {reason}", stacklevel=4)
