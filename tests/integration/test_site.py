"""The pages as a site: that they fit together, and what a reader sees in a browser without a network."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.support.documents import pages
from tests.support.harness import ROOT, call

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ELSEWHERE = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s>]*")
SHOWN = sorted(path.relative_to(ROOT).with_suffix(".html").as_posix() for path in [*ROOT.glob("docs/*.md")])
PAGES = ["index.html", "CONTRIBUTING.html", "CHANGELOG.html", *SHOWN]
# What newcomers meet first, as a terminal shows it, and the heading that has to be found.
ERRORS = (
    ("there is no such script in this container", "multinode: {}: train.py"),
    ("the directory for results cannot be written", "multinode: {}: /workspace/output"),
    ("the directory for results holds another run", "multinode: {}: /workspace/output, checkpoint-2: --epochs 3 here"),
    ("this process trains by itself, and was meant to be one of 2", "multinode: {}: no rank, in no process group"),
    ("this process is alone, but was meant to be one of many", "multinode: {}: PET_NNODES=2"),
    ("unknown option before the command", "multinode: {}: --nprocs"),
    ("has lost another rank", "multinode: rank 0 on pod0 {}: Connection closed by peer, 172.18.0.3"),
    ("transformers looks for a GPU", "multinode: {}: bf16"),
    ("cannot download the examples", "error: {}: https://github.com/huggingface/transformers/archive/v5.23.0.tar.gz"),
)
# What newcomers look for, in their words, and the page that has the answer.
QUESTIONS = (
    ("own script several machines", "machines"),
    ("mount script data results", "script"),
    ("results directory not writable root owner", "script"),
    ("resume after restart checkpoint", "script"),
    ("explain variables", "reference"),
    ("pip install certificate proxy Dockerfile", "image"),
    ("loss two ranks", "training"),
    ("batch size ranks", "training"),
    ("stop training", "training"),
    ("tensorboard", "look"),
    ("jupyter notebook token", "look"),
    ("prometheus metrics", "look"),
    ("logs of all ranks", "look"),
    ("github action", "pipeline"),
    ("gitlab", "pipeline"),
    ("skypilot cloud", "cluster"),
    ("kustomize", "cluster"),
    ("how many machines cost price", "machines"),
    ("vs code devcontainer", "build"),
    ("windows wsl macos", "platforms"),
    ("disk clean up", "platforms"),
    ("wandb offline", "image"),
    ("kubernetes volume data claim", "kubernetes"),
    ("private registry pull secret", "kubernetes-reference"),
    ("tolerations", "kubernetes-reference"),
    ("lightning num_nodes", "libraries"),
    ("accelerate launch", "libraries"),
    ("FSDP checkpoint", "libraries"),
    ("bf16 without AMX", "training"),
    ("pandas version requirements.txt", "image"),
    ("offline bundle", "build"),
    ("torch versions python", "versions"),
    ("exit code 138", "reference"),
    ("MULTINODE_TIMEOUT", "reference"),
    ("slurm sbatch", "slurm"),
    ("python train.py trains alone", "troubleshooting"),
    ("script not mounted worker", "troubleshooting"),
    ("other users cannot read files", "script"),
    ("average_tokens_across_devices", "training"),
    ("spot node checkpoint", "production"),
    ("results to S3", "production"),
    ("sweep", "production"),
    ("quota Kueue team", "production"),
    ("priority class", "kubernetes-reference"),
)


@pytest.fixture(scope="module")
def site(module_path: Path) -> Path:
    """Build the site; a link or an anchor that leads nowhere ends it."""
    if find_spec("mkdocs") is None:
        pytest.skip("no mkdocs, which takes Python 3.11: pip install -e '.[docs]'")
    place = module_path / "site"
    done = call([sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)])
    assert done.code == 0, done.err
    return place


def test_nothing_of_the_site_comes_from_elsewhere(site: Path) -> None:
    assert [(page, address) for page in PAGES for address in ELSEWHERE.findall((site / page).read_text())] == []


def test_every_source_that_a_page_links_to_is_there(site: Path) -> None:
    links = {(shown.path, link) for shown in pages() for link in shown.links if not link.startswith(("https://", "#"))}

    assert [link for page, link in links if not lies_at(site, page, link.partition("#")[0])] == []


def lies_at(site: Path, page: str, link: str) -> bool:
    """Return whether what a page of the repository links to is at the same path in the site."""
    target = (ROOT / page).parent.joinpath(link).resolve().relative_to(ROOT)
    file = (
        "index.html"
        if target.name == "README.md"
        else target.with_suffix(".html")
        if target.suffix == ".md"
        else target
    )
    return (site / file).is_file()


@pytest.fixture(scope="module")
def served(site: Path) -> Iterator[str]:
    """Serve the site on loopback, and return its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def page(browser: Browser, served: str) -> Iterator[Page]:
    """Open a window that reaches the site alone; what it asks of others fails the test."""
    context = browser.new_context(base_url=served, permissions=["clipboard-read", "clipboard-write"])
    asked: list[str] = []
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.on("request", lambda request: asked.append(request.url))
    yield page
    context.close()
    assert [url for url in asked if not url.startswith((served, "data:", "blob:"))] == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_no_page_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})

    wide = {}
    for path in PAGES:
        page.goto(f"/{path}")
        wide[path] = page.evaluate("document.documentElement.scrollWidth")

    assert {path: pixels for path, pixels in wide.items() if pixels > width} == {}


@pytest.mark.slow
def test_the_navigation_leads_to_every_page(page: Page) -> None:
    page.goto("/")
    links = page.locator(".md-nav--primary a.md-nav__link:visible").evaluate_all(
        "links => links.map(each => each.href)"
    )
    page.get_by_role("link", name="Several machines").first.click()

    assert {link.partition("#")[0].rpartition(":")[2].partition("/")[2] for link in links} >= {*PAGES} - {"index.html"}
    assert page.url.endswith("/docs/machines.html")


@pytest.mark.slow
@pytest.mark.parametrize(("heading", "line"), ERRORS)
def test_the_text_of_an_error_leads_to_its_remedy(page: Page, heading: str, line: str) -> None:
    page.goto("/")
    search = page.get_by_role("textbox", name="Search")
    search.click()
    search.fill(line.format(heading))
    search.press("End")  # a key is what the search waits for, as after a paste

    results = page.locator(".md-search-result__link:visible")
    results.filter(has_text=heading).first.wait_for()
    [place, *_] = [n for n, text in enumerate(results.all_inner_texts()) if heading in text]
    results.nth(place).click()

    assert place < 2  # after its page
    page.get_by_role("heading", name=heading).wait_for()


@pytest.mark.slow
@pytest.mark.parametrize(("words", "place"), QUESTIONS)
def test_the_question_of_a_newcomer_leads_to_its_page(page: Page, words: str, place: str) -> None:
    page.goto("/")
    search = page.get_by_role("textbox", name="Search")
    search.click()
    search.fill(words)
    search.press("End")

    first = page.locator(f".md-search-result__item:nth-child(-n+4) a[href*='/docs/{place}.html']")
    first.first.wait_for(state="attached")


@pytest.mark.slow
def test_a_command_can_be_copied(page: Page) -> None:
    page.goto("/docs/machines.html")
    block = page.locator("pre").first

    block.hover()
    block.get_by_role("button", name="Copy").click()

    assert page.evaluate("navigator.clipboard.readText()").strip() == block.inner_text().strip()


@pytest.mark.slow
def test_pictures_are_drawn(page: Page) -> None:
    page.goto("/docs/architecture.html")
    assert page.locator("figure svg text, figure svg foreignObject").count() > 20
    for path in ("/docs/benchmarks.html", "/docs/training.html"):
        page.goto(path)
        drawn = page.locator("article img").evaluate_all(
            "all => all.map(each => each.complete && each.naturalWidth > 100)"
        )
        assert drawn and all(drawn)
