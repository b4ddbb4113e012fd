"""Functions that torch.compile takes into its graphs as they are."""
import importlib.abc
import sys

import torch

_DYNAMO = "torch._dynamo"
_waiting = []


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds torch._dynamo as it would be found without this, and tells it of the functions when it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != _DYNAMO:
            return None
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((found for found in others if found is not None), None)
        if spec is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            while _waiting:
                module.allow_in_graph(_waiting.pop())

        spec.loader.exec_module = exec_module
        return spec


def allow_in_graph(function):
    """torch.compiler.allow_in_graph(), which loads torch._dynamo (a second); here it waits until somebody else does."""
    if _DYNAMO in sys.modules:
        return torch.compiler.allow_in_graph(function)
    if not _waiting:
        sys.meta_path.insert(0, _AfterImport())
    _waiting.append(function)
    return function
