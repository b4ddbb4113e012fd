"""Wrong arguments, for each parameter of each public function and each kind of value that it does not take."""
import functools
import inspect
import warnings

import numpy as np
import pytest

import vkattn
from vkattn import _arguments, _native

Q = np.zeros((1, 2, 3, 4), np.float32)
X = np.zeros((1, 3, 8), np.float32)
SCORES = {"mask": np.ones((3, 3), bool), "kv_lengths": [3], "alibi": [1, 1], "sinks": [0, 0]}


@functools.lru_cache(maxsize=None)
def layer():
    return vkattn.MultiHeadAttention(8, 2, seed=0)


@functools.lru_cache(maxsize=None)
def attend():
    return vkattn.plan(Q, Q, Q, **SCORES)


def cache(**keywords):
    return vkattn.Cache(1, 2, 4, 4, **keywords)


def grads_of():
    output, lse = vkattn.attention(Q, Q, Q, return_lse=True)
    return {"grad_output": Q, "query": Q, "key": Q, "value": Q, "output": output, "lse": lse, "gradients": ["query"]}


def saved_file():
    layer().save("layer.safetensors")
    return {"path": "layer.safetensors"}


# A valid call of each: the function, and the arguments that it needs.
CALLS = {
    "Array.numpy": lambda: (vkattn.array(Q).numpy, {}),
    "Array.write": lambda: (vkattn.array(Q).write, {"x": Q}),
    "Cache.__init__": lambda: (
        vkattn.Cache, {"batch": 1, "kv_heads": 2, "capacity": 4, "head_dim": 4, "page_size": 4}),
    "Cache.append": lambda: (cache().append, {"key": Q, "value": Q}),
    "Cache.attention": lambda: (cache().attention, {"query": Q}),
    "Cache.clear": lambda: (cache().clear, {}),
    "Cache.set_page_table": lambda: (cache(page_size=4).set_page_table, {"page_table": [[0]]}),
    "MultiHeadAttention.__init__": lambda: (vkattn.MultiHeadAttention, {"embed_dim": 8, "num_heads": 2}),
    "MultiHeadAttention.backward": lambda: (
        layer().backward, {"saved": layer()(X, return_saved=True)[2], "grad_output": X}),
    "MultiHeadAttention.forward": lambda: (layer().forward, {"query": X}),
    "MultiHeadAttention.load": lambda: (layer().load, saved_file()),
    "MultiHeadAttention.load_state_dict": lambda: (layer().load_state_dict, {"state": layer().state_dict()}),
    "MultiHeadAttention.make_cache": lambda: (layer().make_cache, {"batch": 1, "capacity": 4}),
    "MultiHeadAttention.save": lambda: (layer().save, {"path": "layer.safetensors"}),
    "MultiHeadAttention.state_dict": lambda: (layer().state_dict, {}),
    "Plan.__call__": lambda: (attend(), {"query": Q, "key": Q, "value": Q, **SCORES}),
    "Plan.describe": lambda: (attend().describe, {}),
    "Rotary": lambda: (lambda **fields: cache(rotary=vkattn.Rotary(**fields)), {}),
    "array": lambda: (vkattn.array, {"x": Q}),
    "attention": lambda: (vkattn.attention, {"query": Q, "key": Q, "value": Q}),
    "attention_backward": lambda: (vkattn.attention_backward, grads_of()),
    "devices": lambda: (vkattn.devices, {}),
    "plan": lambda: (vkattn.plan, {"query": Q, "key": Q, "value": Q}),
    "show": lambda: (vkattn.show, {"weights": np.ones((1, 3, 3), np.float32)}),
}

# Classes that only the package itself makes, and results.
MADE_ELSEWHERE = ("Array", "Plan", "SavedCall", "Device")
RESULTS = ("Gradients", "LayerGradients")


def public_functions():
    """(name, function) of everything that a caller may call."""
    for name in vkattn.__all__:
        public = getattr(vkattn, name)
        if not isinstance(public, type):
            yield name, public
        elif issubclass(public, vkattn.Error) or name in RESULTS:
            continue
        elif issubclass(public, tuple):
            yield name, public
        elif public is not vkattn.Device:
            seen = set()
            for method, function in vars(public).items():
                wanted = not method.startswith("_") or method in ("__init__", "__call__")
                if wanted and inspect.isfunction(function) and function not in seen:
                    seen.add(function)
                    if not (method == "__init__" and name in MADE_ELSEWHERE):
                        yield f"{name}.{method}", function


PARAMETERS = [(name, parameter) for name, function in public_functions()
              for parameter in inspect.signature(function).parameters.values()
              if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD]

# Some values are valid for some parameters. Only object() is valid for none.
VALUES = [None, "nonsense", "", "\udc80", b"x", 1.5, 3j, float("nan"), 10**30, -1, True, (), [], {}, set(),
          [[1.0], [1, 2]], (1.5, 2), "ab", len, np.float32, np.array(object()), np.array(["x"]), np.array([1.5, 2.5]),
          np.array(1, "datetime64[s]"), np.ma.masked_array([1.0, 2.0], [True, False]),
          np.zeros((1, 2, 3, 4), [("a", "f4")])]

# Other words that a sentence may have in place of the parameter's name.
OTHER_WORDS = {
    "embed_dim": ("head_dim",), "capacity": ("kv_length", "cache_length"), "dtype": ("a cache stores",),
    "path": ("cannot be read", "file"), "state": ("the parameters",),
    "gradients": ("there is no gradient of",), "page_count": ("pages need page_size",),
    "page_table": ("pages need page_size",), "style": ("a rotary style",), "kernel": ("no kernel",),
    "device": ("no Vulkan device",), "x": ("does not fit",),
    "prefix": ("no parameter", "has no tensor"), "dropout": ("seed",),
}


def refused(function, arguments):
    """The exception of a call, or None if the call succeeds."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**arguments)
    except (TypeError, vkattn.Error) as e:
        return e
    except ImportError as e:  # from matplotlib, which is imported after the checks
        assert e.name == "matplotlib" or e.name.startswith("matplotlib.")
    return None


def test_each_function_is_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert {name for name, _ in public_functions()} == set(CALLS)
    for name, make in CALLS.items():
        function, arguments = make()
        assert refused(function, arguments) is None, name


@pytest.mark.parametrize("name, parameter", PARAMETERS, ids=[f"{name}-{p.name}" for name, p in PARAMETERS])
def test_wrong_arguments(name, parameter, tmp_path, monkeypatch):
    """Whatever value is given, the call raises a TypeError or vkattn.Error whose sentence names the argument."""
    monkeypatch.chdir(tmp_path)
    function, arguments = CALLS[name]()
    if (name, parameter.name) == ("MultiHeadAttention.forward", "counts"):
        arguments["cache"] = layer().make_cache(1, 512)
    error = refused(function, {**arguments, parameter.name: object()})
    assert isinstance(error, ValueError if parameter.name == "window" else TypeError)
    words = (parameter.name, *OTHER_WORDS.get(parameter.name, ()))
    for value in [object(), *VALUES]:
        error = refused(function, {**arguments, parameter.name: value})
        sentence = "" if error is None else str(error)
        assert error is None or any(word in sentence for word in words), f"{value!r}: {sentence}"
        for inside in ("incompatible", "pybind", "_native", "Invoked with", "has no attribute"):
            assert inside not in sentence, f"{value!r}: {sentence}"


@pytest.mark.parametrize("keywords, sentence", [
    ({"window": (1.5, 2)}, r"window\[0\] is 1.5 but must be an integer"),
    ({"scale": "x"}, "scale is 'x' but must be a number"),
    ({"is_causal": "no"}, "is_causal is 'no' but must be True or False"),
    ({"is_causal": None}, "is_causal is None but must be True or False"),
    ({"align": None}, "align is None but must be 'top-left', 'bottom-right' or a key position"),
    ({"kernel": 3}, "kernel is 3 but must be a str"),
    ({"device": 1.5}, "device is 1.5 but must be a vkattn.Device, its number or a part of its name"),
    ({"dropout": None}, "dropout is None but must be a number"),
    ({"dropout_seed": 1.5}, "dropout_seed is 1.5 but must be an integer"),
    ({"sinks": object()}, "sinks is of type object but must be an array of numbers"),
])
def test_sentences(keywords, sentence):
    with pytest.raises(TypeError, match=sentence):
        vkattn.attention(Q, Q, Q, **keywords)
    if "dropout_seed" not in keywords:  # only calls of a plan take it
        with pytest.raises(TypeError, match=sentence):
            vkattn.plan(Q, Q, Q, **keywords)


# A value of each modifier that changes the results.
GIVEN = {"window": (1, 0), "softcap": 0.5, "alibi": [0.5, 0.25], "alibi_times_mask": True, "sinks": [0.5, 0.25]}
# What else it needs.
NEEDED = {"alibi_times_mask": {"alibi": [0.5, 0.25], "attn_mask": np.arange(9, dtype=np.float32).reshape(3, 3)}}


@pytest.mark.parametrize("name", [row.name for row in _arguments.MODIFIERS])
def test_modifiers_arrive(name, random):
    """Each call that computes scores takes each row of MODIFIERS and passes it on."""
    rows = random.standard_normal(Q.shape).astype(np.float32)
    x, modifier = random.standard_normal(X.shape).astype(np.float32), {name: GIVEN[name]}
    used = cache()
    used.append(rows, rows)

    def results(**keywords):
        output, lse = vkattn.attention(rows, rows, rows, return_lse=True, **keywords)
        arrays = {each: array for each, array in keywords.items() if each in (*_arguments.PER_HEAD, "attn_mask")}
        gradients = ["query", *(each for each in arrays if each != "attn_mask")]
        yield output
        yield vkattn.plan(rows, rows, rows, **keywords)(rows, rows, rows, **arrays).numpy()
        yield used.attention(rows, is_causal=False, **keywords)
        yield vkattn.attention_backward(rows, rows, rows, rows, output, lse, gradients=gradients, **keywords).query
        yield layer()(x, **keywords)[0]

    needed = NEEDED.get(name, {})
    plain, changed = list(results(**needed)), list(results(**needed, **modifier))
    assert all((one != other).any() for one, other in zip(plain, changed))
    for one in changed[1:3]:
        np.testing.assert_allclose(one, changed[0], atol=1e-6)


@pytest.mark.parametrize("group", _arguments.GROUPS)
def test_groups_are_no_keywords(group, tmp_path, monkeypatch):
    """The name of a group is no keyword. Callers only know the keywords that it stands for."""
    monkeypatch.chdir(tmp_path)
    for name, function in public_functions():
        assert group not in inspect.signature(function).parameters
        with pytest.raises(TypeError, match=f"got an unexpected keyword argument '{group}'"):
            call, arguments = CALLS[name]()
            call(**arguments, **{group: {}})


def test_modifiers_that_the_native_module_lacks():
    options = _native.ScoreOptions(is_causal=False, align="top-left", scale=None, dropout=0.0, has_lse=False,
                                   weights="", mask=None, kv_lengths=None, cumulative_query_lengths=None,
                                   cumulative_kv_lengths=None, longest_query=0, longest_kv=0, modifiers={"nonsense": 1})
    with pytest.raises(vkattn.Error, match="no modifier of scores that is called nonsense"):
        _native.Problem(Q, Q, Q, options)


def test_other_numbers_are_taken():
    """Numbers of NumPy, and everything that Python takes as an index or a float."""
    expected = vkattn.attention(Q, Q, Q, is_causal=True, window=(2, 0), scale=0.5)
    for true, count, half in ((1, np.int64(2), np.float32(0.5)), (np.True_, np.array(2), np.array(0.5)),
                              (np.array(True), 2, np.float16(0.5))):
        output = vkattn.attention(Q, Q, Q, is_causal=true, window=[count, 0], scale=half)
        np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("kind", MADE_ELSEWHERE)
def test_classes_that_the_package_makes(kind):
    public = getattr(vkattn, kind)
    arguments = {name: None for name in inspect.signature(public).parameters} if kind != "Device" else {}
    with pytest.raises(TypeError, match="is made by|No constructor"):
        public(**arguments)


@pytest.mark.parametrize("x", [None, np.array(object()), np.array([None, 1]), np.array("2020", "datetime64[D]"),
                               np.array([b"bytes"]), np.zeros(2, [("a", "f4")])])
def test_only_numbers_go_to_a_device(x):
    with pytest.raises(TypeError, match="numbers"):
        vkattn.array(x)
    with pytest.raises(TypeError, match="numbers"):
        vkattn.Array(_native.open(""), (2,), np.asarray(x).dtype)
    with pytest.raises(TypeError, match="numbers"):
        vkattn.array(Q).write(x)


def test_outputs_are_arrays_of_the_device():
    assert isinstance(attend()(Q, Q, Q, **SCORES, out=None), vkattn.Array)
    for out in (Q, [Q]):
        with pytest.raises(TypeError, match="out is of type ndarray but must be a vkattn.Array"):
            attend()(Q, Q, Q, **SCORES, out=out)


def test_masked_arrays():
    """A masked array without masked elements is an array. Masked elements are refused, because they would be counted."""
    np.testing.assert_array_equal(vkattn.attention(np.ma.masked_array(Q), Q, Q), vkattn.attention(Q, Q, Q))
    hidden = np.ma.masked_array(Q, np.arange(Q.size).reshape(Q.shape) == 5)
    for name in ("query", "key", "value"):
        with pytest.raises(TypeError, match=f"{name} is a masked array with masked elements"):
            vkattn.attention(**{**{"query": Q, "key": Q, "value": Q}, name: hidden})
    with pytest.raises(TypeError, match="mask is a masked array"):
        vkattn.attention(Q, Q, Q, np.ma.masked_array(np.ones((3, 3), bool), np.eye(3, dtype=bool)))


def test_other_classes_of_arrays_are_arrays():
    two = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(vkattn.attention(two.view(np.matrix), two, two), vkattn.attention(two, two, two))


def test_no_view_of_a_device():
    """NumPy 2 passes copy=False on. NumPy 1 does not."""
    array = vkattn.array(Q)
    with pytest.raises(ValueError, match="cannot have it without a copy"):
        array.__array__(copy=False)
    np.testing.assert_array_equal(array.__array__(copy=True), Q)
    assert array.__array__(np.float64).dtype == np.float64
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        with pytest.raises(ValueError, match="without a copy"):
            np.asarray(array, copy=False)


class Unreadable:
    """Stands for a bfloat16 tensor of PyTorch, a type that NumPy does not have."""

    dtype = "torch.bfloat16"

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **keywords):
        raise RuntimeError("Unsupported dtype")


def test_types_that_numpy_has_not():
    sentence = r"key is of type Unreadable, of torch.bfloat16, which NumPy cannot take: .*vkattn.torch"
    with pytest.raises(TypeError, match=sentence):
        vkattn.attention(Q, Unreadable(), Q)


def test_bfloat16_tensors_that_require_gradients():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="query is of type Tensor, of torch.bfloat16, which NumPy cannot take"):
        vkattn.attention(torch.zeros(1, 2, 3, 4, dtype=torch.bfloat16, requires_grad=True), Q, Q)


@pytest.mark.parametrize("dtype, keywords, sentence", [
    ("e4m3", {}, "key_scales are not given, but keys are stored as e4m3"),
    (("float16", "e4m3"), {}, "value_scales are not given, but values are stored as e4m3"),
    ("e4m3", {"key_scales": [1, 1]}, "value_scales are not given"),
    ("float16", {"key_scales": [1, 1]}, "key_scales are given, but keys are stored as f16"),
    ("float16", {"value_scales": [1, 1]}, "value_scales are given, but values are stored as f16"),
])
def test_scales_of_caches(dtype, keywords, sentence):
    with pytest.raises(ValueError, match=sentence):
        vkattn.Cache(1, 2, 8, 16, dtype=dtype, **keywords)


def test_entries_of_caches():
    used = vkattn.Cache(3, 2, 4, 4)
    rows = np.zeros((3, 2, 1, 4), np.float32)
    for entries, left in ((None, [0, 0, 0]), (1, [1, 0, 1]), ([0, 2], [0, 1, 0]), ([], [1, 1, 1]), (-1, [1, 1, 0]),
                          (np.array([True, False, False]), [0, 1, 1])):
        used.clear()
        used.append(rows, rows)
        used.clear(entries)
        assert list(used.lengths) == left
    with pytest.raises(ValueError, match="entries has 3, but the batch entries are 0 to 2"):
        used.clear([0, 3])
    with pytest.raises(TypeError, match="entries is float64"):
        used.clear(1.0)
