"""Turns the arguments of a call into a problem of the native module."""
import math
import os

import numpy as np

from . import _arguments, _arrays, _native
from ._errors import RuleError


class Layout:
    """Gives results of (batch, heads, length, …) the leading dimensions of the arguments."""

    def __init__(self, lead, rank, dtype):
        self.lead = lead  # the dimensions before (heads, length, dim)
        self.rank = rank  # 2: not even heads
        self.dtype = dtype  # of the query and of the output

    def restore(self, array):
        if len(self.lead) == 1:
            return array
        if self.rank == 2:
            return array[0, 0]
        return array.reshape(self.lead + array.shape[1:])

    def batched(self, array):
        """The inverse of restore()."""
        if len(self.lead) == 1:
            return array
        if self.rank == 2:
            return array[np.newaxis, np.newaxis]
        return array.reshape((math.prod(self.lead),) + array.shape[len(self.lead):])


def session(device):
    """The session of the device with this name or number, or of the default device."""
    return _native.open(device or "")


def seed_of(seed, dropout):
    """A seed of 64 bits. The operating system draws it if dropout has none."""
    if seed is not None:
        return seed & 0xFFFFFFFFFFFFFFFF
    return int.from_bytes(os.urandom(8), "little") if dropout else 0


def _require_equal_heads(query, key):
    if query.ndim < 3 or key.ndim < 3 or query.shape[-3] == key.shape[-3]:
        return
    raise RuleError(
        f"query has {query.shape[-3]} heads and key {key.shape[-3]}; give enable_gqa=True to share keys among "
        "groups of query heads"
    )


def _native_modifier(row, x):
    """The value of a modifier (a row of MODIFIERS) for the native module."""
    if row.is_per_head and not (row.is_flag_too and isinstance(x, bool)):
        return _arrays.per_head(x, row.name)
    return x


class Packed:
    """Packed sequences: the arrays (heads, rows, dim) hold them one after the other.

    cumulative   int32 for queries and for keys: where each sequence begins, and where the last one ends
    longest      the rows of the longest sequence of queries, and of keys
    count        the number of sequences
    """

    def __init__(self, cumulative_query_lengths, cumulative_kv_lengths, query, key, value):
        for name, array in (("query", query), ("key", key), ("value", value)):
            if array.ndim != 3:
                raise RuleError(f"{name} of packed sequences has the shape {array.shape} but must be (heads, rows, "
                                "dim)")
        self.cumulative = (
            _arrays.cumulative_lengths(cumulative_query_lengths, query.shape[1], "cumulative_query_lengths"),
            _arrays.cumulative_lengths(cumulative_kv_lengths, key.shape[1], "cumulative_kv_lengths"))
        counts = [array.size - 1 for array in self.cumulative]
        if counts[0] != counts[1]:
            raise RuleError(f"cumulative_query_lengths has {counts[0]} sequences and cumulative_kv_lengths has "
                            f"{counts[1]}")
        self.count = counts[0]
        self.longest = tuple(int(np.diff(array).max(initial=0)) for array in self.cumulative)


def _packed(cumulative_query_lengths, cumulative_kv_lengths, *, query, key, value, kv_lengths, return_weights):
    """Packed, or None without packed sequences."""
    if cumulative_query_lengths is None and cumulative_kv_lengths is None:
        return None
    queries = _arrays.cumulative_integers(cumulative_query_lengths, "cumulative_query_lengths")
    keys = _arrays.cumulative_integers(cumulative_kv_lengths, "cumulative_kv_lengths")
    if queries is None or keys is None:
        raise RuleError("packed sequences need both cumulative_query_lengths and cumulative_kv_lengths")
    for name, given in (("kv_lengths", kv_lengths), ("return_weights", return_weights)):
        if given is not None:
            raise RuleError(f"packed sequences take no {name}")
    return Packed(queries, keys, query, key, value)


def score_options(mask, *, is_causal, align, scale, modifiers, kv_lengths=None, packed=None, dropout=0.0,
                  return_lse=False, return_weights=None):
    """Makes native ScoreOptions. The mask has four dimensions, and kv_lengths are int32."""
    cumulative, longest = (packed.cumulative, packed.longest) if packed else ((None, None), (0, 0))
    given = ((row, modifiers[row.name]) for row in _arguments.MODIFIERS)
    return _native.ScoreOptions(
        is_causal=is_causal, align=align, scale=scale, dropout=dropout, has_lse=return_lse,
        weights=return_weights or "", mask=mask, kv_lengths=kv_lengths,
        cumulative_query_lengths=cumulative[0], cumulative_kv_lengths=cumulative[1], longest_query=longest[0],
        longest_kv=longest[1],
        modifiers={row.name: _native_modifier(row, x) for row, x in given if x is not None},
    )


def make(query, key, value, mask, *, enable_gqa, kv_lengths, cumulative_query_lengths=None, cumulative_kv_lengths=None,
         **keywords):
    """Makes (native Problem, Layout). The other keywords go to score_options()."""
    query, dtype = _arrays.tensor(query, "query")
    key, _ = _arrays.tensor(key, "key")
    value, _ = _arrays.tensor(value, "value")
    lead = _arrays.leading_shape(query, key, value)
    if not enable_gqa:
        _require_equal_heads(query, key)
    packed = _packed(cumulative_query_lengths, cumulative_kv_lengths, query=query, key=key, value=value,
                     kv_lengths=kv_lengths, return_weights=keywords["return_weights"])
    entries = (packed.count,) if packed else lead
    heads = query.shape[-3] if query.ndim > 2 else 1
    options = score_options(
        None if mask is None else _arrays.batched_mask(_arrays.mask_array(mask), entries, heads),
        kv_lengths=None if kv_lengths is None else _arrays.kv_lengths(kv_lengths, lead), packed=packed, **keywords,
    )
    problem = _native.Problem(
        _arrays.batched(query, lead, "query"), _arrays.batched(key, lead, "key"),
        _arrays.batched(value, lead, "value"), options,
    )
    return problem, Layout(lead, max(query.ndim, key.ndim, value.ndim), dtype)
