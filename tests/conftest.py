"""The images of the test session: built once, by build.py, as a user would."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from images.store.store import Store
from tests.support import real_ccl
from tests.support.faults import Broken, find_fault
from tests.support.harness import ALONE, EXAMPLES, IMAGES, alone, built, has_docker, remove_images, tags

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# All property tests together take a quarter of a minute of one core with so many examples each. MULTINODE_FUZZ_MINUTES
# says how long they are to take instead, such as 60; that is about true. Only then are the examples new ones each time:
# a change is tried with the examples of the change before it, and fails for what is in it.
COUNT, USUAL = 10, 0.25
MINUTES = os.environ.get("MULTINODE_FUZZ_MINUTES")
ASKED = float(MINUTES or USUAL)
# How long an example takes says something about the machine, which may be busy, and nothing about the code.
settings.register_profile(
    "patient", deadline=None, max_examples=round(COUNT * max(ASKED / USUAL, 1)), derandomize=not MINUTES,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
settings.load_profile("patient")


# The file whose set-up takes longest and wants no default image: it begins first, for most others want that image, and
# wait for the one process that builds it.
FIRST = "tests/cluster/test_guide.py"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let the collector of garbage not look again and again at what is imported and collected, and stays to the end.

    At the end pytest has it look five times for errors that nobody saw; all of it goes back after that, for modules
    that count what was not freed.
    """
    atexit.register(gc.unfreeze)
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of FIRST first; all others stay in the order of their files."""
    items.sort(key=lambda item: not item.path.as_posix().endswith(FIRST))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave no image of the tests in the engine."""
    if ALONE and not hasattr(session.config, "workerinput"):
        remove_images(tags())
        for left in Path(tempfile.gettempdir()).glob(f"{IMAGES}-*"):
            left.unlink()


@pytest.fixture(scope="session", autouse=True)
def usual_umask() -> Iterator[None]:
    """Make files that others may read, whatever the shell of the tests has: some of what is tested looks at modes."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def foreground() -> Iterator[None]:
    """Have the handlers of a program in the foreground: in the background it ignores SIGINT, and under nohup SIGHUP."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, earlier in before.items():
        signal.signal(number, earlier)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Begin with an empty store."""
    return Store(tmp_path / "store")


@pytest.fixture(scope="module")
def module_path() -> Iterator[Path]:
    """Lend a directory to the fixtures of a module, and remove it with the module: images are large."""
    with tempfile.TemporaryDirectory(prefix="multinode-test-") as name:
        Path(name).chmod(0o755)  # another user may read it
        yield Path(name)


@pytest.fixture
def volume(module_path: Path) -> Iterator[Path]:
    """Lend a directory that the user of an image may write, and whose files belong to that user."""
    place = Path(tempfile.mkdtemp(dir=module_path))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def module_tag(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Name images of a module, which are removed with it; its own name in each keeps them apart from all others."""
    given: list[str] = []

    def tag(name: str) -> str:
        given.append(f"{IMAGES}:{request.path.stem}-{name}")
        return given[-1]

    yield tag
    remove_images(given)


@pytest.fixture
def broken(request: pytest.FixtureRequest) -> Iterator[Broken]:
    """Lend the fault of a test, which the test has to check."""
    lent = Broken(find_fault(request.path, request.function.__name__))
    yield lent
    assert lent.checked, "a fault whose end is not checked"


@pytest.fixture(scope="session")
def engine() -> None:
    """Skip, and say how not to, where no Docker daemon answers."""
    if not has_docker():
        pytest.skip("no Docker daemon: start one, or run scripts/test as root")


def load(name: str, *options: str) -> str:
    """Return an image that several workers use; the first of them builds it, with all cores."""
    with alone(name) as file:
        if not file.stat().st_size:
            file.write_text(str(built(*options, "--tag", f"{IMAGES}:{name}")["image"]))
        return file.read_text()


@pytest.fixture(scope="session")
def image(engine: None) -> str:
    """Build the default image, with examples of our own in the layout of the real ones."""
    return load("default", "--examples", str(EXAMPLES))


@pytest.fixture(scope="session")
def ccl_image(request: pytest.FixtureRequest, engine: None) -> str:
    """Build the mission's own example where the real oneCCL stack is at hand, and else an image for a stand-in."""
    if not real_ccl.is_at_hand():
        return str(request.getfixturevalue("older_image"))
    options = (*real_ccl.OPTIONS, "--transformers", "4.46.0", "--base", "debian", "--examples", str(EXAMPLES))
    return load("mission", *options, "--wheelhouse", str(real_ccl.wheelhouse()))


@pytest.fixture(scope="session")
def older_image(engine: None) -> str:
    """Build with the last release of transformers that knew ccl."""
    return load("older", "--torch", "2.13.0", "--transformers", "4.46.3", "--examples", str(EXAMPLES))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Debian's chromium, for the tests of what somebody sees."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install -e '.[test,browser]'")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no chromium: apt-get install chromium")
    with sync_api.sync_playwright() as play:
        launched = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])  # root has no sandbox
        yield launched
        launched.close()
