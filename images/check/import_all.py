"""Import every module, and find where each comes from; run by the image's own Python, standard library only.

Arguments: modules, and releases as `NAME==RELEASE MODULE...`, with the modules of the package behind it. A module has
to come from the directory that the package's metadata is in; where that has no such module, the package is installed in
another way (`pip install -e`). The last line on stderr names what is wrong, and the exit code is 1 then.
"""

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from typing import Any


def locate(find: Any, *arguments: Any) -> "str | None":
    """Return the file of a module by one of importlib's functions that find it; None for one without a file."""
    try:
        spec = find(*arguments)
    except Exception:
        return None
    return os.path.realpath(spec.origin) if spec and spec.has_location else None


def find_package(name: str) -> "tuple[str, str]":
    """Return the release of a package, and the directory that its metadata is in; `none` where there is no such."""
    try:
        package = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return "none", ""
    return package.version, str(package.locate_file(""))


def check(first: str, modules: "list[str]", right: "dict[str, set[str | None]]") -> str:
    """Return what is wrong with a module or a release, empty if nothing is; right: gets the places of modules."""
    name, _, wanted = first.partition("==")
    try:
        if not wanted:
            importlib.import_module(name)
            return ""
        version, directory = find_package(name)
        if version != wanted:
            return f"{name} ({version} instead of {wanted})"
        for module in modules:
            place = locate(importlib.machinery.PathFinder.find_spec, module, [directory])
            right.setdefault(module, {None}).add(place)
    except BaseException as error:
        return f"{name} ({type(error).__name__}: {error})"
    return ""


def main(arguments: "list[str]") -> "list[str]":
    """Return what is wrong; modules are located before anything is imported, which may change sys.path."""
    rows = [argument.split() for argument in arguments]
    own = getattr(sys, "stdlib_module_names", ())
    names = [name for name, *_ in rows if "==" not in name and name not in own]
    found = {name: locate(importlib.util.find_spec, name) for name in names}
    right: dict[str, set[str | None]] = {}
    failed = [check(first, modules, right) for first, *modules in rows]
    others = [name for name, places in right.items() if places > {None} and found.get(name) not in places]
    return [*(f"{name} ({found[name]})" for name in others), *filter(None, failed)]


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("ignore")  # of others' code
    wrong = main(sys.argv[1:])
    print("; ".join(wrong), file=sys.stderr)
    sys.exit(bool(wrong))
