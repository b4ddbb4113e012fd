"""vkattn.plan."""
import math

import numpy as np

from . import _arguments, _arrays, _native, _problem
from ._device_arrays import Array, upload
from ._errors import RuleError


def _stored(x, name):
    """The NumPy array that goes to the device: masks and numbers for each head get a type of the library."""
    x = _arrays.host_array(x, name)
    if name in _arguments.PER_HEAD:
        return _arrays.per_head(x, name)
    if name == "mask" and x.dtype != np.bool_:
        return _arrays.mask_array(x)
    return x


def _empty(x, name):
    """An array of x's shape and type for Problem, which reads no elements but those of small arrays: they are 0."""
    if not isinstance(x, Array):
        x = _stored(x, name)
    return np.zeros(x.shape, x.dtype) if x.ndim < 2 else np.empty(x.shape, x.dtype)


def _arrays_to_write(x, name):
    """A list of Arrays, from one Array or several."""
    given = list(x) if isinstance(x, (tuple, list)) else [x]
    for each in given:
        if not isinstance(each, Array):
            raise _arguments.wrong(each, name, "a vkattn.Array or several: what a plan writes is on its device")
    return given


def _require_whole_batches(lead, **arrays):
    """Requires one stride for all batch entries, as arrays on a device have."""
    for name, array in arrays.items():
        own = () if array is None else array.shape[:-3]
        if own != lead and math.prod(own) != 1:
            raise RuleError(
                f"a plan takes {name} with {lead} before (heads, length, dim), or with none, but it has {own}; "
                "repeat it, or call attention with arrays in host memory"
            )


class Plan:
    """A compiled problem: plan(query, key, value, …) computes it. vkattn.plan() makes it.

    kernel   the selected kernel
    device   the device's name
    """

    @_arguments.reads(session=_arguments.made_by("Plan", "vkattn.plan()"), kernel=None, keywords=None)
    def __init__(self, query, key, value, mask, session, kernel, keywords):
        modifiers = keywords["modifiers"]
        per_head = {name: modifiers[name] for name in _arguments.PER_HEAD if not isinstance(modifiers[name], bool)}
        examples = {"query": query, "key": key, "value": value, "mask": mask, "kv_lengths": keywords["kv_lengths"],
                    **per_head}
        empty = {name: None if x is None else _empty(x, name) for name, x in examples.items()}
        keywords = {**keywords, "kv_lengths": empty["kv_lengths"],
                    "modifiers": {**modifiers, **{name: empty[name] for name in per_head}}}
        problem, self._layout = _problem.make(
            *(empty[name] for name in ("query", "key", "value", "mask")), **keywords)
        lead = self._layout.lead
        _require_whole_batches(lead, **{name: empty[name] for name in ("query", "key", "value", "mask")})
        self._session = session
        self._native = _native.Plan(session, problem, kernel or "")
        self._dropout = keywords["dropout"]
        self._shapes = {name: None if x is None else (x.shape, x.dtype) for name, x in empty.items()}
        if empty["kv_lengths"] is not None:
            self._shapes["kv_lengths"] = ((math.prod(lead),), np.dtype(np.int32))
        self._set_results(empty, keywords)

    def _set_results(self, empty, keywords):
        """Sets the shapes and types of the results, by the tensors' names."""
        query, key, value = empty["query"], empty["key"], empty["value"]
        rows = (self._layout.lead + query.shape[-3:-1]) if self._layout.rank > 2 else query.shape[-2:-1]
        float32 = np.dtype(np.float32)
        self._results = {"output": (rows + value.shape[-1:], query.dtype)}
        if keywords["return_lse"]:
            self._results["lse"] = (rows, float32)
        if keywords["return_weights"]:
            self._results["weights"] = (rows + key.shape[-2:-1], float32)

    @property
    def kernel(self):
        return self._native.kernel

    @property
    def device(self):
        return self._native.device_name

    def describe(self):
        """A few lines for a person: the problem, the kernel and the reason for it, the dispatches."""
        return self._native.describe()

    def _staged(self, name, x):
        """The native array of an argument, which is copied to the device if it is not there."""
        expected = self._shapes.get(name)
        if (x is None) != (expected is None):
            raise RuleError(f"the plan was made {'without' if expected is None else 'with'} {name}")
        if x is None:
            return None
        if not isinstance(x, Array):
            x = _arrays.kv_lengths(x, self._layout.lead) if name == "kv_lengths" else _stored(x, name)
        if (x.shape, x.dtype) != expected:
            raise RuleError(
                f"{name} is a {x.dtype} array of shape {x.shape}, but the plan is for {expected[1]} of {expected[0]}"
            )
        return (x if isinstance(x, Array) else upload(self._session, x))._native

    def _outputs(self, out):
        wanted = list(self._results.values())
        if out is None:
            return [Array(self._session, *result) for result in wanted]
        if [(x.shape, x.dtype) for x in out] != wanted:
            raise RuleError(f"out does not fit what the plan returns, {', '.join(f'{t} of {s}' for s, t in wanted)}")
        return out

    @_arguments.reads(out=_arrays_to_write)
    def __call__(self, query, key, value, mask=None, *, kv_lengths=None, per_head, dropout_seed=None, out=None):
        """Computes the problem, waits, and returns as Arrays what vkattn.attention would return.

        Arguments have the shapes and types that the plan was made of. vkattn.Arrays on the plan's device are not
        copied; NumPy arrays are. kv_lengths on the device is int32, one for each batch entry.
        out: the Arrays to write, in place of new ones. None of them may be an argument, and none may occur twice.
        """
        given = {"query": query, "key": key, "value": value, "mask": mask, "kv_lengths": kv_lengths, **per_head}
        staged = {name: self._staged(name, x) for name, x in given.items()}
        outputs = self._outputs(out)
        staged.update((name, array._native) for name, array in zip(self._results, outputs))
        self._native.run(staged, _problem.seed_of(dropout_seed, self._dropout))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def __repr__(self):
        shape, dtype = self._shapes["query"]
        return f"<vkattn.Plan for query {shape} {dtype}, kernel {self.kernel}, on {self.device}>"


@_arguments.reads()
def plan(query, key, value, mask=None, *, is_causal=False, align="top-left", scale=None, enable_gqa=False,
         modifiers, kv_lengths=None, dropout=0.0, return_lse=False, return_weights=None, device=None, kernel=None):
    """Compiles a problem on arrays that stay on the device, to compute it again and again.

    All arrays are examples, NumPy's or vkattn's: only their shapes and types count. Keywords are those of
    vkattn.attention.

        >>> q, k, v = (vkattn.array(x) for x in (query, key, value))
        >>> attend = vkattn.plan(q, k, v, is_causal=True)
        >>> output = attend(q, k, v)         # a vkattn.Array
        >>> output = attend(output, k, v)    # nothing is copied
        >>> output.numpy()
    """
    keywords = dict(is_causal=is_causal, align=align, scale=scale, enable_gqa=enable_gqa, modifiers=modifiers,
                    kv_lengths=kv_lengths, dropout=dropout, return_lse=return_lse, return_weights=return_weights)
    return Plan(query, key, value, mask, _problem.session(device), kernel, keywords)
