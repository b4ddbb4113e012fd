"""The exceptions of the package, beside TypeError for arguments of a wrong type."""
import contextlib


class Error(Exception):
    """vkattn cannot do what was asked. str() is the library's sentence, with the numbers.

    `code` is for programs: 'invalid_argument', 'unsupported' (this device or build cannot do it), 'limit_exceeded',
    'out_of_memory', 'device_lost' (the next call opens the device again; arrays, plans, caches and layers must be made
    again), 'vulkan', 'not_found' (no such device, kernel or loader) or 'io'.
    """

    def __init__(self, message, code="invalid_argument"):
        super().__init__(message)
        self.code = code


class RuleError(Error, ValueError):
    """Arguments break a rule: an Error whose code is 'invalid_argument', and a ValueError."""


def make(code, message):
    """Makes the exception for an error of the library."""
    return (RuleError if code == "invalid_argument" else Error)(message, code)


@contextlib.contextmanager
def said_with(names):
    """Puts the arguments' names in the place of the library's in the sentence of a RuleError.

    names   pairs (the library's word, the argument's)
    """
    try:
        yield
    except RuleError as e:
        sentence = str(e)
        for of_library, of_argument in names:
            sentence = sentence.replace(of_library, of_argument)
        raise RuleError(sentence, e.code) from None
