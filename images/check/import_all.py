"""Import modules, and find releases; run by the image's own Python, standard library only.

Arguments: modules, and releases as NAME==RELEASE. The last line on stderr names what is wrong, and the exit code is 1
then.
"""

import importlib
import importlib.metadata
import sys
import warnings


def release_of(name: str) -> str:
    """Return the release of a package that Python finds; `none` where there is no such."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def check(argument: str) -> str:
    """Return what is wrong with a module or a release, empty if nothing is."""
    name, _, wanted = argument.partition("==")
    try:
        if not wanted:
            importlib.import_module(name)
        elif (release := release_of(name)) != wanted:
            return f"{name} ({release} instead of {wanted})"
    except BaseException as error:
        return f"{name} ({type(error).__name__}: {' '.join(str(error).split())})"  # the last line has to say all
    return ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of others' code
    sys.path[:] = filter(None, sys.path)  # a file of the user's own in the working directory may have a package's name
    wrong = list(filter(None, map(check, sys.argv[1:])))
    print("; ".join(wrong), file=sys.stderr)
    sys.exit(bool(wrong))
