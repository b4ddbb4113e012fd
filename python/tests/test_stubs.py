"""The type stubs beside the functions that they are of: names, order and defaults of parameters, fields and methods."""
import ast
import pathlib

import pytest

import vkattn

PACKAGE = pathlib.Path(vkattn.__file__).parent


def definitions(tree):
    """Functions, methods and classes by their names, as 'function', 'Class' and 'Class.method'; overloads are several."""
    found = []
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.append((node.name, node))
        if isinstance(node, ast.ClassDef):
            found += [(f"{node.name}.{name}", inner) for name, inner in definitions(node)]
    return found


def parameters(function):
    """(name, kind, default) of each; the default None where there is none."""
    given = function.args
    positional = given.posonlyargs + given.args
    defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
    found = [(x.arg, "positional", d and ast.unparse(d)) for x, d in zip(positional, defaults)]
    found += [(x.arg, "keyword", d and ast.unparse(d)) for x, d in zip(given.kwonlyargs, given.kw_defaults)]
    return found, given.vararg, given.kwarg


def fields(node):
    """Of a NamedTuple: (name, default) of each."""
    return [(x.target.id, x.value and ast.unparse(x.value)) for x in node.body if isinstance(x, ast.AnnAssign)]


def of_package(*names):
    return dict(pair for name in names for pair in definitions(ast.parse((PACKAGE / name).read_text(encoding="utf-8"))))


def stubs(name):
    return definitions(ast.parse((PACKAGE / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("stub", ["__init__.pyi", "torch.pyi"])
def test_stubs_are_as_what_they_are_of(stub):
    """An overload may leave a default out, for a caller who gives the argument."""
    modules = ["torch.py"] if stub == "torch.pyi" else [path.name for path in PACKAGE.glob("_[a-z]*.py")]
    sources, compared = of_package(*modules), 0
    for name, node in stubs(stub):
        if name.split(".")[0] in ("Device", "_DLPack"):  # the native module's, and the stub's own
            continue
        source = sources.get(name)
        assert source is not None, f"{stub} has {name}, which is in no module"
        compared += 1
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            assert bases == [ast.unparse(base) for base in source.bases], name
            if "NamedTuple" in bases:
                assert fields(node) == fields(source), name
            continue
        (stubbed, *extra), (written, *written_extra) = parameters(node), parameters(source)
        if name == "MultiHeadAttention.make_cache":  # its **keywords are those of a cache that are not the layer's
            own, _, _ = parameters(sources["Cache.__init__"])
            written += [x for x in own if x[1] == "keyword" and x[0] not in ("rotary", "device")]
            written_extra = [None, None]
        assert extra == written_extra == [None, None], name
        assert [x[:2] for x in stubbed] == [x[:2] for x in written], name
        overloaded = any(ast.unparse(x) == "overload" for x in node.decorator_list)
        for (parameter, _, in_stub), (_, _, in_source) in zip(stubbed, written):
            assert in_stub == in_source or (overloaded and in_stub is None), f"{name}({parameter})"
    assert compared > (1 if stub == "torch.pyi" else 30)


def test_stubs_have_every_public_name():
    stubbed = {name for name, _ in stubs("__init__.pyi")}
    for name in vkattn.__all__:
        assert name in stubbed, f"__init__.pyi lacks {name}"
        public = getattr(vkattn, name)
        assert public.__doc__
        for method in vars(public) if isinstance(public, type) else ():
            if not method.startswith("_") and callable(getattr(public, method)) and not isinstance(public, tuple):
                assert f"{name}.{method}" in stubbed or issubclass(public, (tuple, Exception)), f"lacks {name}.{method}"
    assert {name.split(".")[1] for name, _ in stubs("__init__.pyi") if name.startswith("Device.")} == {
        name for name in vars(vkattn.Device) if not name.startswith("_")}
