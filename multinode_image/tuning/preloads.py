"""Libraries that are preloaded: an allocator and Intel's OpenMP, where the image has them."""

from __future__ import annotations

from multinode_image.tuning.context import Context

OPENMP = "/usr/local/lib/libiomp5.so"
# tcmalloc comes first: an allocator must be loaded before anything allocates. The first path that exists is taken.
PRELOADS = {
    "tcmalloc": ("/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4", "/usr/lib/aarch64-linux-gnu/libtcmalloc.so.4"),
    "Intel's OpenMP": (OPENMP,),
}


def list_preloads(context: Context) -> dict[str, str]:
    """Return the path of each library to preload that the image has, by what it is."""
    libraries = {name: next(filter(context.process.has_file, paths), "") for name, paths in PRELOADS.items()}
    return {name: path for name, path in libraries.items() if path}


def has_iomp(context: Context) -> bool:
    """Return whether Intel's OpenMP, which alone reads KMP_*, will be there: the user's LD_PRELOAD may leave it out."""
    words = context.environ.get("LD_PRELOAD", "").replace(":", " ").split()
    yours = [word for word in words if "libnss_wrapper" not in word]  # that one gives this user a name
    return context.process.has_file(OPENMP) and (not yours or any("libiomp5" in word for word in yours))
