"""Where people look: JupyterLab behind a token, which trains on two ranks, TensorBoard, and metrics of a training."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import requests

from tests.support.containers import Container, detached
from tests.support.harness import EXAMPLES, HARDENED, ROOT, TRAIN_SCRIPT, built, call, run, wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow
TOKEN = re.compile(r"127\.0\.0\.1:8888/lab\?token=(\w{32,})")
NOTEBOOK = ("--volume", f"{ROOT}/examples:/workspace/examples:ro")


@pytest.fixture(scope="module")
def equipped(image: str, module_tag: Callable[[str], str]) -> str:
    """Build the image that the page and the error name, above the layers of the default one."""
    options = ("--examples", str(EXAMPLES), "--requirements", "examples/notebook.txt", "--tag", module_tag("notebook"))
    return str(built(*options, "--load")["image"])


def open_port(container: Container, port: int) -> str:
    """Return the address on this machine of a port of a container."""
    return f"http://{call(['docker', 'port', container.name, str(port)]).out.splitlines()[0]}"


@pytest.fixture(scope="module")
def server(equipped: str) -> Iterator[tuple[str, str]]:
    """Start it as a user without a name, who can write to /tmp alone; yield its address and its token."""
    options = (*HARDENED, "--shm-size=1g", "--publish", "127.0.0.1::8888", *NOTEBOOK)
    with detached(*options, equipped, "notebook", network="bridge") as container:
        assert container.said("Or copy and paste one of these URLs")
        token = TOKEN.search(container.log)
        assert token
        yield open_port(container, 8888), token[1]


def test_nobody_gets_in_without_the_token(server: tuple[str, str]) -> None:
    address, token = server

    def ask(**headers: str) -> int:
        return requests.get(f"{address}/api/contents", headers=headers, timeout=30).status_code

    assert (ask(), ask(Authorization=f"token {token}1"), ask(Authorization=f"token {token}")) == (403, 403, 200)


def test_a_notebook_trains_on_two_ranks_and_draws_the_loss(server: tuple[str, str], browser: Browser) -> None:
    address, token = server
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(f"{address}/lab/tree/examples/notebook.ipynb?token={token}")
    page.get_by_text("(ipykernel) | Idle").wait_for()  # else the cells are not run

    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    page.locator(".jp-OutputArea img").wait_for()

    losses = [float(loss) for loss in re.findall(r"'loss': '?([\d.e-]+)", page.locator(".jp-Notebook").inner_text())]
    context.close()
    assert len(losses) > 10 and losses[-1] < losses[0] / 10


def test_tensorboard_shows_the_results(equipped: str) -> None:
    with detached(*HARDENED, "--publish", "127.0.0.1::6006", equipped, "tensorboard", network="bridge") as container:
        assert container.said("(Press CTRL+C to quit)")
        shown = requests.get(f"{open_port(container, 6006)}/data/environment", timeout=30).json()

    assert shown["data_location"] == "/workspace/output"


@pytest.mark.parametrize("name", ["notebook", "tensorboard"])
def test_an_image_without_it_says_how_to_make_one(image: str, name: str) -> None:
    done = run(image, name)

    assert done.code == 2 and "--requirements examples/notebook.txt" in done.err


def test_a_training_answers_prometheus(image: str) -> None:
    options = (*HARDENED, *TRAIN_SCRIPT, "--tmpfs=/workspace/output:mode=1777", "--publish", "127.0.0.1::9400")
    shown = ("--env", "MULTINODE_METRICS=9400", "--env", "STEP_SECONDS=0.2")
    words = (
        "--nproc",
        "2",
        "train.py",
        "--output_dir",
        "/workspace/output",
        "--max_steps",
        "600",
        "--save_steps",
        "999",
    )
    with detached(*options, *shown, image, *words, network="bridge") as container:
        metrics = f"{open_port(container, 9400)}/metrics"

        def is_told() -> bool:
            text = requests.get(metrics, timeout=30).text
            return "multinode_training_samples_per_second" in text and "multinode_training_steps 600" in text

        assert container.said("begins at step 0") and wait_for(is_told, 60)
        assert container.stop()
