from moetune._library import function

__version__: str = str(function("version")())
