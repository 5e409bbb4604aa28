"""The version of the compiler, which every bundle names, held to that of the runtime for Python.

The wheel `sterna` has both packages. Where `sterna-runtime` of another version was installed over it, parts of two
versions would meet: they are refused before anything else is imported.
"""

from sterna_runtime.errors import SternaError, error
from sterna_runtime.version import __version__ as runtime_version

__version__ = "0.1.0"


def mixed(runtime: str) -> SternaError | None:
    """E0521, if the runtime for Python is of another version."""
    if runtime == __version__:
        return None
    title = f"sterna {__version__} is installed with sterna_runtime {runtime}"
    fix = f"pip install --force-reinstall sterna=={__version__}, and leave sterna-runtime out: sterna brings it along"
    return error("E0521", title, fix=fix)


if (problem := mixed(runtime_version)) is not None:
    raise problem
