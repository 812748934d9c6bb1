"""One exception class for each failure status of moetune.h."""

from typing import ClassVar


class Error(Exception):
    """A call of moetune failed. `str(error)` is its sentence: what was wrong, where, what would be right."""

    status: ClassVar[int] = -1


class InvalidArgument(Error, ValueError):
    """A null or unaligned pointer, a value out of range, a wrong dtype or stride, a closed runtime."""

    status = 1


class NotTuned(Error, LookupError):
    """Nothing is stored that could serve. The sentence names the search to run."""

    status = 2


class UnknownName(Error, LookupError):
    """No such kernel, dimension, configuration or generation."""

    status = 3


class Unsupported(Error):
    """Well-formed, and nothing that this version can run."""

    status = 4


class WrongDevice(Error, ValueError):
    """A tensor or stream of another device or context."""

    status = 5


class BadFile(Error, OSError):
    """A cache or pack that is damaged, foreign, unreadable or of a newer moetune."""

    status = 6


class NoDriver(Error):
    """No CUDA driver or GPU, or one that is too old."""

    status = 7


class CudaError(Error):
    """The driver refused. The sentence holds its words."""

    status = 8


class OutOfMemory(Error, MemoryError):
    """No memory on the host or the device, or a workspace that is too small."""

    status = 9


class InternalError(Error):
    """A bug in moetune."""

    status = 10


CLASSES: list[type[Error]] = [Error, *Error.__subclasses__()]
