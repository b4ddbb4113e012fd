"""vkattn.Cache."""
import functools
import threading

import numpy as np

from . import _arguments, _arrays, _native, _problem, _rotary
from ._errors import Error, RuleError

# The library's names of types. Other names are passed on as they are: the library knows or refuses them.
_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3"}
# The most keys that the library counts, also in a ring, whose length goes on growing.
_MOST_KEYS = 2**30
# Page numbers are int32.
_MOST_PAGES = 2**31 - 1


def _storage_types(dtype):
    """The library's names of the two types, of keys and of values."""
    types = dtype if isinstance(dtype, (tuple, list)) else (dtype, dtype)
    if len(types) != 2:
        raise RuleError(f"dtype names {len(types)} types but must be one, or a pair, of keys and of values")
    must = "a type that a cache stores, such as 'float16', or a pair"
    names = [_arguments.word(one, "dtype") if isinstance(one, str) else str(_arrays.numpy_type(one, must))
             for one in types]
    return [_TYPES.get(name, name) for name in names]


def _one_at_a_time(method):
    """Decorates a method: calls of other threads wait until it returns, so what it reads of the cache stays true."""

    @functools.wraps(method)
    def locked(self, *arguments, **keywords):
        with self._held():
            return method(self, *arguments, **keywords)

    return locked


class Cache:
    """Keys and values on the device, for decoding: append new ones, attend over all.

        batch, kv_heads      of keys and values
        capacity             keys that each batch entry has room for
        head_dim, value_dim  elements of a key, and of a value (None: head_dim)
        dtype                the type of stored keys and values: 'float32', 'float16' or 'bfloat16', or fewer bits:
                             'q8_0' and 'q4_0' (8 and 4 bits, in blocks of 32 with a scale) or 'e4m3' (8-bit floats,
                             with a scale for each head). A pair is the type of keys and the type of values. Appended
                             arrays may have another type
        key_scales, value_scales
                             (kv_heads,): an element of 'e4m3' is its stored number times its head's scale. Required
                             for keys or values of 'e4m3', and refused for others
        ring                 True: positions have no end; the cache keeps the newest `capacity` keys of each batch
                             entry, at their positions
        page_size            puts keys on pages of so many positions, which `page_table` names
        page_count           the number of pages. None: as many as page_table names
        page_table           (batch, pages of an entry): the number of the page for each page_size positions. Entries
                             may share a page. -1: no page yet, for positions without keys. None: each entry has its
                             own pages
        rotary               a vkattn.Rotary: rotates keys by their positions when they are appended, and queries when
                             they attend
        device               as for vkattn.attention

    len() is the number of keys of the longest batch entry, and `lengths` has the number of each. Calls of several
    threads wait for each other. After an interrupt (KeyboardInterrupt) the cache has either all of the appended rows
    or none: len() tells. After the loss of its device a cache cannot be used: make another and append again.

        >>> cache = vkattn.Cache(batch=1, kv_heads=8, capacity=4096, head_dim=128, dtype="float16")
        >>> for query, key, value in steps:            # (1, 32, 1, 128), (1, 8, 1, 128) twice
        ...     cache.append(key, value)
        ...     output = cache.attention(query)        # (1, 32, 1, 128)
    """

    @_arguments.reads(rotary=_rotary.read)
    def __init__(self, batch, kv_heads, capacity, head_dim, value_dim=None, *, dtype="float32", key_scales=None,
                 value_scales=None, ring=False, page_size=None, page_count=None, page_table=None, rotary=None,
                 device=None):
        value_dim = head_dim if value_dim is None else value_dim
        options = _native.CacheOptions()
        options.batch, options.kv_heads, options.capacity = batch, kv_heads, capacity
        options.head_dim, options.value_dim = head_dim, value_dim
        options.set_types(*_storage_types(dtype))
        turned, frequencies = _rotary.native(rotary, head_dim)
        if turned is not None:
            options.rotary = turned
        if ring and page_size is not None:
            raise RuleError("a cache is a ring or has pages, not both")
        self._lock = threading.RLock()
        self._pages = None  # the page table; then the number of pages, and the keys of a page
        self._page_count, self._page_size = 0, page_size
        if ring:
            options.set_ring()
        elif page_size is not None:
            page_table = self._set_pages(options, page_size, page_count, page_table)
        elif page_count is not None or page_table is not None:
            raise RuleError("pages need page_size")
        self._native = _native.Cache(
            _problem.session(device), options, page_table,
            *(None if x is None else _arrays.per_head(x, name)
              for name, x in (("key_scales", key_scales), ("value_scales", value_scales))),
            frequencies,
        )
        self._shapes = {"key": (batch, kv_heads, head_dim), "value": (batch, kv_heads, value_dim)}
        self.capacity = capacity
        self.rotary = rotary
        self._is_ring = ring

    def _set_pages(self, options, page_size, page_count, page_table):
        """Sets the pages in `options`, and returns the table for the native module."""
        entries = -(-options.capacity // page_size) if page_size > 0 else 0
        shape = (options.batch, entries)
        if page_table is None:
            page_table = np.arange(options.batch * entries).reshape(shape)
        table = _arrays.host_array(page_table, "page_table")
        if page_count is not None and page_count < 0:
            raise RuleError(f"page_count is {page_count} but must be at least 0")
        if page_count is None:
            page_count = int(table.max(initial=0)) + 1 if table.dtype.kind in "iu" else 0
        self._page_count = page_count
        self._pages = self._table(table, shape)
        options.set_pages(page_size, page_count, entries)
        return self._pages

    def _table(self, table, shape):
        """The page table as int32, after a check that each number is an existing page or -1."""
        if table.dtype.kind not in "iu" or table.shape != shape:
            raise RuleError(
                f"page_table is a {table.dtype} array of shape {table.shape} but must have one integer for each "
                f"page of a batch entry, {shape}"
            )
        most = min(self._page_count, _MOST_PAGES) - 1
        wrong = (table > most) if table.dtype.kind == "u" else (table < -1) | (table > most)
        if wrong.any():
            entry, page = (int(i) for i in np.argwhere(wrong)[0])
            raise RuleError(
                f"page_table[{entry}, {page}] is {table[entry, page]} but must be the number of a page, 0 to {most}, "
                "or -1 for none yet"
            )
        return table.astype(np.int32)

    def _require_pages(self, table, lengths):
        """Requires a page for each key of each batch entry."""
        if table is None:
            return
        used = np.arange(table.shape[1]) * self._page_size < lengths[:, np.newaxis]
        missing = used & (table < 0)
        if missing.any():
            entry, page = (int(i) for i in np.argwhere(missing)[0])
            raise RuleError(
                f"page_table[{entry}, {page}] is -1, none yet, but {int(lengths[entry])} keys of batch entry {entry} "
                f"take pages 0 to {(int(lengths[entry]) - 1) // self._page_size} of it; name one by set_page_table()"
            )

    def _held(self):
        """The lock to hold. Fails in a forked process, where a thread that does not exist may hold it for ever."""
        self._native.require_own_process()
        return self._lock

    @property
    def _lengths(self):
        return np.array(self._native.lengths(), np.int64)

    def __len__(self):
        return int(self._lengths.max(initial=0))

    @property
    def lengths(self):
        """The number of keys of each batch entry; of a ring, the number that it was given."""
        return self._lengths

    @_arguments.reads()
    @_one_at_a_time
    def set_page_table(self, page_table):
        """Names other pages: for batch entries that grow, or that share their first keys."""
        if self._pages is None:
            raise RuleError("the cache has no pages")
        before = self._pages
        table = self._table(_arrays.host_array(page_table, "page_table"), before.shape)
        self._require_pages(table, self._lengths)
        self._pages = table
        try:
            self._native.set_page_table(table)
        except Error:
            self._pages = before
            raise

    @_arguments.reads()
    @_one_at_a_time
    def clear(self, entries=None):
        """Forgets all keys and values, or only those of one batch entry or of several, by their numbers."""
        lengths = self._lengths
        lengths[slice(None) if entries is None else self._index(entries)] = 0
        self._native.set_lengths(lengths.astype(np.int32))

    def _index(self, entries):
        """An index for NumPy, from numbers of batch entries or a bool for each entry."""
        batch, given = len(self._lengths), _arrays.host_array(entries, "entries")
        if given.dtype == np.bool_ and given.shape == (batch,):
            return given
        if given.size and given.dtype.kind not in "iu":
            raise TypeError(f"entries is {given.dtype} but must hold numbers of batch entries")
        wrong = (given < -batch) | (given >= batch)
        if wrong.any():
            raise RuleError(f"entries has {given[wrong].flat[0]}, but the batch entries are 0 to {batch - 1}")
        return given.astype(np.intp)

    @_arguments.reads()
    @_one_at_a_time
    def append(self, key, value, *, counts=None):
        """Adds new_length rows to each batch entry: key (batch, kv_heads, new_length, head_dim), value likewise.

        counts (batch,): how many rows each entry gets, if entries differ; its later rows are padding.
        """
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
        counts = self._counts(counts, new)
        self._grown(new, counts)
        self._native.append(arrays["key"], arrays["value"], counts)

    def _counts(self, counts, most):
        """The counts for the native module."""
        if counts is None:
            return None
        counts = _arrays.kv_lengths(counts, self._shapes["key"][:1], "counts")
        return counts.clip(0, most)

    def _grown(self, new, counts):
        """The lengths after an append. Fails if room or pages are lacking."""
        lengths = self._lengths
        grown = lengths + (new if counts is None else counts)
        room = _MOST_KEYS if self._is_ring else self.capacity
        if (grown > room).any():
            entry = int(grown.argmax())
            held = int(lengths[entry])
            raise RuleError(
                f"the cache holds {held} keys and has room for {room}; {int(grown[entry]) - held} more do not fit"
            )
        self._require_pages(self._pages, grown)
        return grown

    def _kv_length(self, new=0):
        """The kv_length of a plan. A mask and weights have a column for each of these keys.

        Each number needs a plan of its own, so the number for a ring only doubles, when positions exceed it.
        """
        keys = self.capacity
        while self._is_ring and keys < len(self) + new:
            keys *= 2
        return min(keys, _MOST_KEYS)

    def _padded(self, mask, name, keys, held):
        """The mask with a column for each of `keys`, or one column for all. Keys from `held` on are hidden."""
        if mask is None or not mask.ndim or mask.shape[-1] in (1, keys):
            return mask
        if mask.shape[-1] != held:
            raise RuleError(
                f"{name} has the shape {mask.shape}, but its last dimension must be {held}, the keys that the cache "
                "holds, or 1"
            )
        return np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, keys - held)])

    def _first_positions(self, align, queries, counts):
        """The position of each batch entry's first query, by `align`."""
        if align == "bottom-right":
            return self._lengths - (queries if counts is None else counts)
        return np.full(self._shapes["key"][:1], 0 if isinstance(align, str) else align)

    @_arguments.reads()
    @_one_at_a_time
    def attention(self, query, mask=None, *, counts=None, is_causal=True, align="bottom-right", scale=None,
                  modifiers, return_lse=False, return_weights=None):
        """Attention of query (batch, query_heads, query_length, head_dim) over the keys that the cache holds.

        query_heads is a multiple of kv_heads. By default the queries belong to the last keys that were appended.
        counts (batch,): the number of queries of each entry, as for append(); results of later queries are 0. mask
        broadcasts to (batch, query_heads, query_length, len(cache)). Other keywords are as for vkattn.attention.
        Returns the output (batch, query_heads, query_length, value_dim), or (output, lse), (output, weights) or
        (output, lse, weights).
        """
        array, dtype = _arrays.tensor(query, "query")
        batch, _, dim = self._shapes["key"]
        if array.ndim != 4 or array.shape[0] != batch or array.shape[3] != dim:
            raise RuleError(
                f"query has the shape {array.shape} but must be ({batch}, query_heads, query_length, {dim})"
            )
        counts = self._counts(counts, array.shape[2])
        keys = self._kv_length()
        if mask is not None:
            mask = self._padded(_arrays.mask_array(mask), "mask", keys, len(self))
            mask = _arrays.batched_mask(mask, (batch,), array.shape[1])
        options = _problem.score_options(
            mask, is_causal=is_causal, align=align, scale=scale, modifiers=modifiers, return_lse=return_lse,
            return_weights=return_weights,
        )
        positions = self._first_positions(align, array.shape[2], counts).astype(np.int32)
        output, lse, weights = self._native.attention(array, keys, counts, positions, options)
        if weights is not None:
            weights = weights[..., :len(self)]
        results = [x for x in (output.view(dtype), lse, weights) if x is not None]
        for entry, count in enumerate(() if counts is None else counts):
            for result in results:
                result[entry, :, count:] = 0
        return results[0] if len(results) == 1 else tuple(results)

    def __repr__(self):
        kind = "ring" if self._is_ring else "cache" if self._pages is None else "cache on pages"
        return f"<vkattn.Cache, a {kind} of {len(self)} keys, with room for {self.capacity}>"
