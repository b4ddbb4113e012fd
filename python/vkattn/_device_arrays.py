"""Arrays in a device's memory: vkattn.Array and vkattn.array."""
import math

import numpy as np

from . import _arguments, _arrays, _native, _problem
from ._errors import RuleError


_CPU = (1, 0)  # DLPack's number of this kind of device, and the device's own
_KNOWS_VERSIONS = tuple(int(number) for number in np.__version__.split(".")[:2]) >= (2, 1)


class Array:
    """An array in a device's memory, in C order. array() and plans make it.

    shape   as in NumPy
    dtype   NumPy's, or bfloat16 of ml_dtypes; without it a type of one field, bfloat16, that has the bits

    numpy(), numpy.asarray() and DLPack (numpy.from_dlpack(), torch.from_dlpack()) copy it to host memory, so they
    refuse copy=False; DLPack of NumPy has no bfloat16, and refuses it. With the last reference its memory serves other arrays, or is freed.
    """

    __slots__ = ("_native", "_session", "dtype", "shape")

    @_arguments.reads(session=_arguments.made_by("Array", "vkattn.array() and by plans"), shape=None)
    def __init__(self, session, shape, dtype):
        self._session = session
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        _arrays.require_numbers(self.dtype, "array")  # an element must not refer to an object of the host
        self._native = _native.DeviceArray(session, self.nbytes)

    @property
    def ndim(self):
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self):
        """The bytes of all elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def device(self):
        """The device's name."""
        return self._session.device_name

    def numpy(self):
        """Returns a copy in host memory."""
        array = np.empty(self.shape, self.dtype)
        if array.size:
            self._native.read(array.view(np.uint8) if array.ndim else array)
        return array

    @_arguments.reads()
    def write(self, x):
        """Replaces all elements by the elements of an array of the same shape and type."""
        given = _arrays.host_array(x, "x")
        if given.shape != self.shape or given.dtype != self.dtype:
            raise RuleError(
                f"a {given.dtype} array of shape {given.shape} does not fit a {self.dtype} one of {self.shape}"
            )
        if given.size:
            self._native.write(given)

    def __array__(self, dtype=None, copy=None):
        if copy is False:  # NumPy 2 expects ValueError
            raise RuleError("a vkattn.Array lies on a device: NumPy cannot have it without a copy; give no copy=False")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack_device__(self):
        """(1, 0), the CPU: there the copy lies."""
        return _CPU

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A DLPack capsule of a new copy in host memory, as the array API standard has it.

        stream must be None, as host memory has no streams; dl_device None or the CPU, (1, 0). copy=False is a
        BufferError, and so is bfloat16.
        """
        if stream is not None:
            raise RuleError(f"stream is {_arguments.said(stream)} but must be None: DLPack gives a copy of a vkattn.Array "
                            "in host memory, which has no streams")
        if dl_device is not None and tuple(dl_device) != _CPU:
            raise BufferError(f"dl_device is {_arguments.said(dl_device)}, but DLPack gives a vkattn.Array in host "
                              "memory alone, (1, 0)")
        if copy is not None and not copy:
            raise BufferError("a vkattn.Array lies on a device: DLPack cannot give it without a copy; give no "
                              "copy=False")
        if _arrays.is_bfloat16(self.dtype):
            raise BufferError("DLPack of NumPy has no bfloat16; use numpy(), or vkattn.torch.from_numpy()")
        array = self.numpy()
        # NumPy before 2.1 gives a capsule of the first version, which consumers must take.
        return array.__dlpack__(max_version=max_version) if max_version and _KNOWS_VERSIONS else array.__dlpack__()

    def __repr__(self):
        return f"<vkattn.Array {self.shape} {self.dtype} on {self.device}>"


@_arguments.reads()
def array(x, device=None):
    """Copies a NumPy or DLPack array of any type of numbers to a device's memory. Plans take the result without a copy.

        >>> on_device = vkattn.array(numpy.ones((1, 8, 512, 64), "float32"))
        >>> on_device.numpy().shape
        (1, 8, 512, 64)
    """
    return upload(_problem.session(device), _arrays.host_array(x, "x"))


def upload(session, given):
    """Copies a NumPy array to an Array."""
    made = Array(session, given.shape, given.dtype)
    if given.size:
        made._native.write(given)
    return made
