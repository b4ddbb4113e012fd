"""The arguments of the public functions: one table of readers by argument name, and the decorator that applies it."""
import collections.abc
import functools
import inspect
import operator
import os
from typing import Callable, NamedTuple, Optional

import numpy as np

from . import _native
from ._errors import RuleError

# In place of a reader: the argument is read elsewhere, as types are, and arrays (_arrays.host_array()).
ELSEWHERE = None
_MOST = 2**63 - 1


def said(x):
    """The text that stands for an argument in a sentence."""
    if x is None or isinstance(x, (str, bytes, int, float, complex, tuple)):
        text = repr(x)
        if len(text) <= 60:
            return text
    return f"of type {type(x).__name__}"


def wrong(x, name, must):
    """The exception for an argument of a wrong type."""
    return TypeError(f"{name} is {said(x)} but must be {must}")


def flag(x, name):
    """A bool: Python's, NumPy's, or the integers 0 and 1."""
    if x is True or x is False:
        return x
    if isinstance(x, (bool, np.bool_)):
        return bool(x)
    if getattr(x, "dtype", None) == np.bool_ and not getattr(x, "ndim", 1):
        return bool(x)
    try:
        value = operator.index(x)
    except TypeError:
        value = None
    if value not in (0, 1):
        raise wrong(x, name, "True or False")
    return bool(value)


def number(x, name):
    """A float, from anything that is one real number."""
    if type(x) in (float, int) or (hasattr(x, "__float__") and not getattr(x, "ndim", 0) and not _is_complex(x)):
        try:
            return float(x)
        except OverflowError:
            raise RuleError(f"{name} is {said(x)}, which is beyond float64") from None
        except (TypeError, ValueError, RuntimeError):  # numbers of other libraries raise RuntimeError
            pass
    raise wrong(x, name, "a number")


def _is_complex(x):
    return isinstance(x, complex) or getattr(getattr(x, "dtype", None), "kind", "") == "c"


def any_integer(x, name):
    """An int, from anything that Python takes as an index."""
    try:
        return operator.index(x)
    except TypeError:
        raise wrong(x, name, "an integer") from None


def integer(x, name):
    """An int of 64 bits, as the library takes it."""
    value = any_integer(x, name)
    if not -_MOST <= value <= _MOST:
        raise RuleError(f"{name} is {said(value)} but must be an integer of 64 bits")
    return value


def word(x, name):
    """A str. The library decides whether it knows the word."""
    if not isinstance(x, str):
        raise wrong(x, name, "a str")
    try:
        x.encode()
    except UnicodeEncodeError:
        raise RuleError(f"{name} is {ascii(x)}, which is no text in UTF-8") from None
    return x


def alignment(x, name):
    """The name of an alignment, or the position of the first query among the keys."""
    if isinstance(x, str):
        return word(x, name)
    if hasattr(x, "__index__"):
        return integer(x, name)
    raise wrong(x, name, "'top-left', 'bottom-right' or a key position")


def window(x, name):
    """(left, right), each a count or None."""
    try:
        left, right = x
    except (TypeError, ValueError):
        raise RuleError(f"{name} is {said(x)} but must be (left, right), each a count or None") from None
    return tuple(None if side is None else integer(side, f"{name}[{i}]") for i, side in enumerate((left, right)))


def slopes(x, name):
    """True or False, or an array, which is returned unchanged."""
    return bool(x) if isinstance(x, (bool, np.bool_)) else x


def device(x, name):
    """The device as the library takes it: a part of a name, or a number."""
    if isinstance(x, str):
        return word(x, name)
    if isinstance(x, _native.Device):
        return str(x.index)
    if hasattr(x, "__index__"):
        return str(integer(x, name))
    raise wrong(x, name, "a vkattn.Device, its number or a part of its name")


def _listed(x, name, must):
    try:
        if not isinstance(x, (bytes, collections.abc.Mapping)):
            return list(x)
    except TypeError:
        pass
    raise wrong(x, name, must)


def names(x, name):
    """A tuple of str."""
    must = "a sequence of names, such as ('query', 'key')"
    if isinstance(x, str):
        raise wrong(x, name, must)
    return tuple(word(each, f"a name in {name}") for each in _listed(x, name, must))


def words(x, name):
    """A list of words, one for each row."""
    return _listed(x, name, "a sequence of words")


def parameters(x, name):
    """Arrays by their names."""
    if not isinstance(x, collections.abc.Mapping):
        raise wrong(x, name, "a mapping from the parameters' names to arrays")
    for each in x:
        word(each, f"a name in {name}")
    return x


def path(x, name):
    """The name of a file, as a str."""
    try:
        text = os.fsdecode(x)
    except TypeError:
        raise wrong(x, name, "a path: str, bytes or os.PathLike") from None
    if not text or "\0" in text:
        raise RuleError(f"{name} is {said(text)} but must name a file, without null characters")
    return text


def instance(kind, made_by):
    """Makes a reader that requires an object of class `kind`."""

    def read(x, name):
        if not isinstance(x, kind):
            raise wrong(x, name, f"a vkattn.{kind.__name__}, {made_by}")
        return x

    return read


def made_by(kind, maker, native=_native.Session):
    """Makes the reader of a native object that only `maker` has, so that callers cannot call the class `kind`."""

    def read(x, name):
        if not isinstance(x, native):
            raise TypeError(f"a vkattn.{kind} is made by {maker}, not by its class; {name} is {said(x)}")
        return x

    return read


class Modifier(NamedTuple):
    """A keyword that changes scores. Each call that computes scores takes it. Its default, None, changes nothing."""

    name: str
    read: Optional[Callable]  # a reader, as in READERS
    is_per_head: bool = False  # an array, one number for each query head; may lie on the device; has a gradient
    is_flag_too: bool = False  # may be True or False in place of the array


# A new keyword needs a row here, one of kModifiers (python/src/score_inputs.cpp), a line of attention()'s docstring,
# and its place in the signatures of the stub.
MODIFIERS = (
    Modifier("window", window),
    Modifier("softcap", number),
    Modifier("alibi", slopes, is_per_head=True, is_flag_too=True),
    Modifier("alibi_times_mask", flag),
    Modifier("sinks", ELSEWHERE, is_per_head=True),
)
PER_HEAD = tuple(row.name for row in MODIFIERS if row.is_per_head)
# A parameter of such a name stands for these keywords. Callers see the keywords in its place; the function gets a dict
# with all of them, None for those that were not given.
GROUPS = {"modifiers": tuple(row.name for row in MODIFIERS), "per_head": PER_HEAD}

# PyTorch's names of keywords. A function that has the keyword of the second name understands the first too.
ALIASES = {"attn_mask": "mask", "dropout_p": "dropout"}

# The readers of all public functions' parameters, by parameter name. A reader is called with (argument, name). It is
# not called with None if None is the parameter's default.
READERS = {
    **dict.fromkeys(("is_causal", "enable_gqa", "return_lse", "return_saved", "need_weights", "average_attn_weights",
                     "ring", "bias"), flag),
    **dict.fromkeys(("scale", "dropout", "base", "position_scale", "magnitude"), number),
    **dict.fromkeys(("batch", "kv_heads", "capacity", "head_dim", "value_dim", "page_size", "page_count", "embed_dim",
                     "num_heads", "kdim", "vdim", "dims"), integer),
    **dict.fromkeys(("return_weights", "kernel", "style", "prefix"), word),
    **dict.fromkeys(("tokens", "key_tokens"), words),
    **dict.fromkeys(("query", "key", "value", "mask", "attn_mask", "key_padding_mask", "output", "lse", "grad_output",
                     "grad_lse", "kv_lengths", "cumulative_query_lengths", "cumulative_kv_lengths", "counts", "key_scales",
                     "value_scales", "page_table", "frequencies", "entries", "weights", "x", "dtype"), ELSEWHERE),
    **{row.name: row.read for row in MODIFIERS},
    "align": alignment,
    "device": device,
    "gradients": names,
    "path": path,
    "dropout_seed": any_integer,
    "seed": any_integer,
    "state": parameters,
}


def _bound(reader, name, takes_none):
    """The reader of one parameter, with its name bound."""
    if reader is ELSEWHERE:
        return None
    if takes_none:
        return lambda x: None if x is None else reader(x, name)
    return lambda x: reader(x, name)


def _public_signature(function):
    """The signature that callers see: the keywords of each group stand in the group's place."""
    signature, parameters = inspect.signature(function), []
    for p in signature.parameters.values():
        if p.name in GROUPS:
            parameters += [p.replace(name=name, default=None) for name in GROUPS[p.name]]
        else:
            parameters.append(p)
    return signature.replace(parameters=parameters)


def _gathered(function, group, keywords):
    """Moves the keywords of a group from `keywords` to a dict."""
    if group in keywords:  # callers have no such keyword; the sentence is Python's
        raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {group!r}")
    return {name: keywords.pop(name, None) for name in GROUPS[group]}


def _without_aliases(function, known, keywords):
    """The keywords, each alias replaced by the function's own name."""
    renamed = {}
    for name, x in keywords.items():
        own = ALIASES.get(name, name) if name not in known else name
        if own not in known:
            own = name  # Python says that the function has no such keyword
        if own in renamed or (own != name and own in keywords):
            raise TypeError(f"{function.__qualname__}() got both {own} and {name}, which are one argument")
        renamed[own] = x
    return renamed


def reads(**own):
    """Decorates a public function: READERS read its arguments. `own` are readers for this function alone."""

    def decorate(function):
        signature = _public_signature(function)
        groups = [name for name in inspect.signature(function).parameters if name in GROUPS]
        given = [p for p in signature.parameters.values() if p.name != "self"]
        by_name = {p.name: _bound({**READERS, **own}[p.name], p.name, p.default is None) for p in given}
        positional = [by_name[p.name] for p in given if p.kind is p.POSITIONAL_OR_KEYWORD]
        if "self" in signature.parameters:
            positional.insert(0, None)

        @functools.wraps(function)
        def read(*arguments, **keywords):
            if any(positional):
                arguments = [x if reader is None else reader(x) for reader, x in zip(positional, arguments)] + list(
                    arguments[len(positional):])
            if not by_name.keys() >= keywords.keys():
                keywords = _without_aliases(function, by_name, keywords)
            for name, x in keywords.items():
                reader = by_name.get(name)
                if reader is not None:
                    keywords[name] = reader(x)
            for group in groups:
                keywords[group] = _gathered(function, group, keywords)
            return function(*arguments, **keywords)

        read.__signature__ = signature
        return read

    return decorate


def read_fields(given, name):
    """The fields of a NamedTuple by name, each read like an argument of that name."""
    defaults = given._field_defaults
    return {
        field: x if READERS[field] is ELSEWHERE or (x is None and defaults[field] is None)
        else READERS[field](x, f"{name}.{field}")
        for field, x in given._asdict().items()
    }
