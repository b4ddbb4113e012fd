"""vkattn.Cache."""
import numpy as np

from . import _arrays, _native, _problem
from ._errors import RuleError

_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "q8_0": "q8_0", "q4_0": "q4_0"}


class Cache:
    """Keys and values on the device, for decoding: append new ones, attend over all.

        batch, kv_heads      of keys and values
        capacity             keys that each batch entry has room for
        head_dim, value_dim  elements of a key, and of a value (None: head_dim)
        dtype                as what they are stored: 'float32', 'float16', 'bfloat16', or in blocks of 32 with
                             'q8_0' (8 bits) or 'q4_0' (4 bits); whatever the type of what is appended
        device               as of vkattn.attention

    len() is the number of keys of each batch entry.

        >>> cache = vkattn.Cache(batch=1, kv_heads=8, capacity=4096, head_dim=128, dtype="float16")
        >>> for query, key, value in steps:            # (1, 32, 1, 128), (1, 8, 1, 128) twice
        ...     cache.append(key, value)
        ...     output = cache.attention(query)        # (1, 32, 1, 128)
    """

    def __init__(self, batch, kv_heads, capacity, head_dim, value_dim=None, *, dtype="float32", device=None):
        value_dim = head_dim if value_dim is None else value_dim
        name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
        self._native = _native.Cache(_problem.session(device), batch, kv_heads, capacity, head_dim, value_dim,
                                     _TYPES.get(name, name))
        self._shapes = {"key": (batch, kv_heads, head_dim), "value": (batch, kv_heads, value_dim)}
        self.capacity = capacity
        self._length = 0

    def __len__(self):
        return self._length

    def clear(self):
        """Forgets all keys and values."""
        self._native.clear()
        self._length = 0

    def append(self, key, value):
        """Adds new_length rows for each batch entry: key (batch, kv_heads, new_length, head_dim), value likewise."""
        arrays = {}
        for name, x in (("key", key), ("value", value)):
            array, _ = _arrays.tensor(x, name)
            batch, heads, dim = self._shapes[name]
            if array.ndim != 4 or array.shape != (batch, heads, array.shape[2], dim):
                raise RuleError(f"{name} has the shape {array.shape} but must be ({batch}, {heads}, new_length, {dim})")
            arrays[name] = array
        new = arrays["key"].shape[2]
        if arrays["value"].shape[2] != new:
            raise RuleError(f"key and value differ in length: {new} and {arrays['value'].shape[2]}")
        if self._length + new > self.capacity:
            raise RuleError(
                f"the cache holds {self._length} keys and has room for {self.capacity}; {new} more do not fit"
            )
        self._native.append(arrays["key"], arrays["value"])
        self._length += new

    def attention(self, query, *, is_causal=True, align="bottom-right", scale=None, window=None, softcap=None,
                  alibi=False, return_lse=False):
        """Attention of query (batch, query_heads, query_length, head_dim) over the keys that the cache holds.

        query_heads is a multiple of kv_heads. As they are, the keywords say that the queries are the last ones
        that keys were appended for. Others as of vkattn.attention. Returns the output (batch, query_heads,
        query_length, value_dim), or (output, lse).
        """
        array, dtype = _arrays.tensor(query, "query")
        batch, _, dim = self._shapes["key"]
        if array.ndim != 4 or array.shape[0] != batch or array.shape[3] != dim:
            raise RuleError(
                f"query has the shape {array.shape} but must be ({batch}, query_heads, query_length, {dim})"
            )
        options = _native.Options(
            is_causal=is_causal, align=align, scale=scale, window=_problem.window_of(window), softcap=softcap or 0.0,
            standard_alibi=bool(alibi), dropout=0.0, has_lse=return_lse, weights="",
        )
        output, lse = self._native.attention(array, options)
        return (output.view(dtype), lse) if return_lse else output.view(dtype)

    def __repr__(self):
        return f"<vkattn.Cache of {self._length} keys, with room for {self.capacity}>"
