"""Programs that run beside torch, with stand-ins for it."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from multinode_image.commands.doctor import read_probe
from multinode_image.errors import Refusal
from multinode_image.programs import prefetch, probe
from multinode_image.programs.prefetch import choose_files, explain, main
from multinode_image.programs.smoke_checks import (
    Failed,
    Report,
    check_flags,
    check_jobs,
    check_reports,
    check_used_backend,
    check_world,
    default_flags,
    launched_size,
)
from multinode_image.report import scaling
from multinode_image.report.scaling import Link
from multinode_image.tasks.prefetch import DATASET, FILES, METRIC, NLTK, WEIGHTS, Wanted
from tests.support.trainer_fields import HISTORY

MB = 1e6
NAME = "multinode_image.programs.network"


@pytest.fixture
def network() -> Iterator[Any]:
    """Import the program beside stand-ins of what it imports."""
    modules = {name: ModuleType(name) for name in ("torch", "torch.distributed")}
    vars(modules["torch"])["distributed"] = modules["torch.distributed"]
    vars(modules["torch"])["Tensor"] = object
    with mock.patch.dict(sys.modules, modules):
        for name in (NAME, "multinode_image.programs.leave"):
            sys.modules.pop(name, None)
        yield importlib.import_module(NAME)


def read_rows(text: str) -> dict[str, list[str]]:
    """Return the cells of the table by the first column."""
    return {line[:30].strip(): line[30:].split() for line in text.splitlines() if "weights" in line[:30]}


def test_a_slow_network_costs_more_and_less_where_less_is_sent(network: Any) -> None:
    steps = {"float32": 0.5, "bfloat16": 0.2}

    said = network.describe(network.Measured("gloo", 2, 1, Link(119.6e6, 2e-4), steps))

    assert "120 MB/s (0.96 Gbit/s of data), a message takes 0.20 ms" in said
    rows = read_rows(said)
    assert rows["66 million weights, float32"][:2] == ["3.00", "s"]
    assert rows["110 million weights, bfloat16"][:2] == ["2.40", "s"]
    for cells in rows.values():
        off, float32, bf16, _ = (int(cell.rstrip("%")) for cell in cells[2:])
        assert off > float32 > bf16
    assert int(rows["66 million weights, bfloat16"][2][:-1]) > int(rows["66 million weights, float32"][2][:-1])


def test_a_processor_without_units_has_no_rows_for_bfloat16(network: Any) -> None:
    said = network.describe(network.Measured("gloo", 2, 1, Link(1e9), {"float32": 0.5}))

    assert [name.partition(", ")[2] for name in read_rows(said)] == ["float32", "float32"]


@pytest.mark.parametrize(("flags", "elsewhere", "types"), [
    ("avx512_bf16", 0.0, ["float32", "bfloat16"]), ("avx512_bf16", 1.0, ["float32"]), ("avx2", 0.0, ["float32"]),
])  # fmt: skip
def test_ranks_measure_bfloat16_where_all_have_units(
    network: Any, flags: str, elsewhere: float, types: list[str]
) -> None:
    vars(network.dist)["get_world_size"] = lambda: 2
    vars(network.torch)["get_num_threads"] = lambda: 1
    seen: dict[str, Any] = {
        "read_text": lambda _: f"flags : {flags}\n",
        "measure_link": lambda: Link(1e9),
        "slowest": lambda mine: max(mine, elsewhere),
        "time_layer": lambda *, lowered: 2.0 - lowered,
    }
    with mock.patch.multiple(network, **seen):
        assert list(network.measure("gloo").steps) == types


@pytest.mark.parametrize(("rate", "burst", "stall"), [
    (12 * MB, 0, 0), (12 * MB, 1.25 * MB, 0), (37 * MB, 3.75 * MB, 0), (0.5 * MB, 1.25 * MB, 0), (5e9, 0, 0),
    (12 * MB, 1.25 * MB, 3), (37 * MB, 0, 3), (1e9, 0, 3),
])  # fmt: skip
def test_a_limit_is_found_behind_its_burst_and_a_stalled_moment(
    network: Any, rate: float, burst: float, stall: float
) -> None:
    """burst: bytes that pass at once in the beginning; stall: seconds of one sum more, after 1.6 seconds of sums."""
    clock, left = 0.0, burst

    def time_sum(numbers: int) -> float:
        nonlocal clock, left
        before, size = clock, numbers * 4
        clock += 1e-4 + max(size - left, 0) / rate
        left = max(left - size, 0)
        clock += stall if before <= 1.6 < clock else 0
        return clock - before

    vars(network.torch)["zeros"] = lambda count: count
    vars(network.dist)["get_world_size"] = lambda: 2
    with mock.patch.multiple(network, time_sum=time_sum, slowest=float):
        assert network.measure_link().bandwidth == pytest.approx(rate, rel=0.05)
    assert clock < 20


SMALL = ["config.json", "vocab.txt", "modeling_own.py"]


@pytest.mark.parametrize(
    ("there", "chosen"),
    [
        (["model.safetensors", "pytorch_model.bin", "tf_model.h5", "onnx/model.onnx"], ["model.safetensors"]),
        (["pytorch_model.bin", "flax_model.msgpack"], ["pytorch_model.bin"]),
        (["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "pytorch_model.bin"],
         ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]),
        (["adapter_model.safetensors"], ["adapter_model.safetensors"]),
        (["model.gguf", "original/params.json"], []),
    ],
)  # fmt: skip
def test_one_form_of_the_weights_is_fetched(there: list[str], chosen: list[str]) -> None:
    assert choose_files([*SMALL, *there], weights=True) == [*SMALL, *chosen]
    assert choose_files([*SMALL, *there], weights=False) == SMALL


@pytest.mark.parametrize(("whole", "offline"), [(True, True), (False, False)])
def test_only_what_is_whole_is_said_to_run_offline(
    whole: bool, offline: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with mock.patch.dict(os.environ):  # it tells the libraries what their bars are to do
        plan = {"task": "qa", "wanted": [], "whole": whole, "caches": ["/models", "/data"]}
        assert main([json.dumps(plan)], {"HF_HOME": "/hf"}, "/") == 0
    last = capsys.readouterr().out
    assert "/models and /data; " in last and ("HF_HUB_OFFLINE=1" in last) is offline


def test_what_a_library_says_is_in_one_row() -> None:
    refusal = explain(ValueError("no config x\nmore"), "model ours/bert", "https://hub")
    assert refusal.value == "model ours/bert from https://hub: ValueError: no config x more"
    assert "HF_TOKEN" in refusal.remedy and refusal.code == 1


class Ended(Exception):
    """Stands for the end of the process."""


def run(backend: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    def end(code: int) -> None:
        raise Ended(code)

    monkeypatch.setattr("os._exit", end)
    with pytest.raises(Ended):
        probe.main([backend], {}, "/")
    return capsys.readouterr().out.splitlines()[-1]


def test_a_torch_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "transformers", None)
    probe = read_probe(run("gloo", monkeypatch, capsys), "nothing")
    assert (probe.torch, probe.transformers) == ("", "")
    assert probe.broken.startswith("ModuleNotFoundError: import of transformers halted")
    assert probe.error.startswith("ModuleNotFoundError: import of torch halted")
    assert probe.python.startswith("3.")


@pytest.mark.parametrize(
    ("files", "importing", "broken"),
    [
        ({}, "transformers.trainer", ""),
        ({"torchvision/__init__.py": "raise RuntimeError('no nms')"}, "torchvision", "RuntimeError: no nms"),
        ({"torchaudio.py": "raise OSError('libcudart.so')"}, "torchaudio", "OSError: libcudart.so"),
        (
            {"transformers/trainer.py": "raise ModuleNotFoundError('Trainer') from ImportError('no peft')"},
            "transformers.trainer",
            "ImportError: no peft",
        ),
    ],
)
def test_what_the_trainer_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], importing: str, broken: str
) -> None:
    written = {"transformers/__init__.py": "__version__ = '5.23.0'", "transformers/trainer.py": "", **files}
    for name, text in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in probe.TRAINER:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))  # so that what is imported here is gone afterwards
        del sys.modules[name]

    imported: dict[str, object] = {}
    assert probe.attempt(lambda: probe.examine_transformers(imported)) == broken
    assert imported == {"importing": importing, **({} if broken else {"transformers": "5.23.0"})}


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({}, 1),
        ({"WORLD_SIZE": "2"}, 2),
        ({"WORLD_SIZE": "1", "PMI_RANK": "0", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4"}, 4),
        ({"WORLD_SIZE": "two"}, 1),
        ({"WORLD_SIZE": "²"}, 1),
    ],
)
def test_the_size_that_the_launcher_started_is_found(environ: dict[str, str], size: int) -> None:
    assert launched_size(environ) == size


JOB, OTHER = "SLURM_JOB_ID=7", "SLURM_JOB_ID=8"
GOOD = Report("a", 3.5, 0.1)


@pytest.mark.parametrize(
    ("check", "given"),
    [
        (check_flags, [[]]),
        (check_world, [2, ["2", "2"]]),
        (check_world, [3, ["1:4"] * 3]),
        (check_world, [4, ["2:", "4"]]),
        (check_jobs, [[JOB, JOB]]),
        (check_jobs, [["", ""]]),
        (check_used_backend, ["gloo", "gloo"]),
        (check_used_backend, ["none", "ccl"]),
        (check_used_backend, ["gloo", ""]),
        (check_reports, [[GOOD, GOOD]]),
    ],
)
def test_what_is_as_it_should_be_passes(check: Callable[..., None], given: list[Any]) -> None:
    check(*given)


@pytest.mark.parametrize(
    ("check", "given", "said", "code"),
    [
        (check_flags, [["--bf17", "3"]], "not a flag of the Trainer: --bf17 3", 2),
        (check_world, [1, ["2"]], "the world is smaller than asked for: 1 instead of 2", 1),
        (check_world, [4, ["1:2"] * 4], "the world is larger than asked for: 4 instead of 1 to 2", 1),
        (check_world, [2, ["2", "3"]], "the world is smaller than asked for: 2 instead of 3, as rank 1 was told", 1),
        (check_world, [2, ["2:", "3:"]], "smaller than asked for: 2 instead of 3 or more, as rank 1 was told", 1),
        (check_jobs, [[JOB, OTHER]], f"different jobs, rank 0: {JOB}, rank 1: {OTHER}; export", 1),
        (check_jobs, [[JOB, ""]], "rank 1: no name", 1),
        (check_used_backend, ["gloo", "ccl"], "the backend is gloo, planned was ccl", 1),
        (check_reports, [[GOOD, GOOD._replace(digest="b")]], "differ between ranks: rank 0: a, rank 1: b", 1),
        (check_reports, [[GOOD._replace(after=1.75)]], "from 3.5000 to 1.7500, it had to fall below 1.7500", 1),
        (check_reports, [[GOOD._replace(after=float("nan"))]], "the loss went from 3.5000 to nan", 1),
    ],
)
def test_a_job_that_did_not_train_as_one_fails(
    check: Callable[..., None], given: list[Any], said: str, code: int
) -> None:
    with pytest.raises(Failed) as caught:
        check(*given)
    assert said in str(caught.value) and caught.value.code == code


@pytest.mark.parametrize("backend", ["", "gloo"])
def test_every_default_is_a_flag_of_the_release(backend: str) -> None:
    for release, fields in HISTORY.items():
        words = list(default_flags("/tmp/x", backend, fields))
        names = [word.removeprefix("--") for word in words if word.startswith("--")]
        assert set(names) <= fields, release
        assert ("use_cpu" in names) != ("no_cuda" in names), release
        assert ("ddp_backend" in names) is bool(backend), release
        assert {"output_dir", "max_steps", "seed"} <= set(names), release


# The network, measured by ranks that are made up.


class Dist(SimpleNamespace):
    """torch.distributed of one of several ranks, whose sums take the time of their bytes."""

    ReduceOp = SimpleNamespace(MAX="max")

    def __init__(self, clock: list[float], size: int = 4, rate: float = 1e6) -> None:
        super().__init__(clock=clock, size=size, rate=rate, sums=list[int](), rank=0, done=list[str]())

    def get_world_size(self) -> int:
        return int(self.size)

    def get_rank(self) -> int:
        return int(self.rank)

    def barrier(self) -> None:
        self.done.append("barrier")

    def all_reduce(self, numbers: Any, op: str = "") -> None:
        if not op:
            self.sums.append(len(numbers))
            self.clock[0] += 0.001 + 4 * len(numbers) / self.rate


@pytest.fixture
def ranks(network: Any, monkeypatch: pytest.MonkeyPatch) -> Dist:
    clock = [0.0]
    ranks = Dist(clock)

    class Number(list[float]):
        def __float__(self) -> float:
            return self[0]

    torch = SimpleNamespace(zeros=lambda count: [0] * count, tensor=lambda values, dtype: Number(values), float64=None,
                            get_num_threads=lambda: 3)  # fmt: skip
    monkeypatch.setattr(network, "dist", ranks)
    monkeypatch.setattr(network, "torch", torch)
    monkeypatch.setattr(network.time, "perf_counter", lambda: clock[0])
    return ranks


def test_a_link_is_measured_by_sums_that_take_long_enough(network: Any, ranks: Dist) -> None:
    link = network.measure_link()

    size = max(ranks.sums) * 4
    assert ranks.sums[: network.MESSAGES] == [1] * network.MESSAGES and size in network.SIZES
    assert link.latency == pytest.approx((0.001 + 4 / 1e6) / 6)
    assert link.bandwidth == pytest.approx(6 / 4 * size / (0.001 + size / 1e6))
    larger = network.SIZES[network.SIZES.index(size) + 1] if size != network.SIZES[-1] else None
    assert larger is None or larger / 1e6 * network.LEAST > 2 * network.SECONDS  # the next one would take too long
    assert ranks.done == ["barrier"] * len(ranks.sums)
    count = ranks.sums.count(size // 4) - 1
    assert network.LEAST <= count <= network.MOST


@pytest.mark.parametrize(("flags", "types"), [("avx512_bf16", ["float32", "bfloat16"]), ("avx2", ["float32"])])
def test_a_layer_is_measured_in_what_all_ranks_have_a_unit_for(
    network: Any, ranks: Dist, monkeypatch: pytest.MonkeyPatch, flags: str, types: list[str]
) -> None:
    monkeypatch.setattr(network, "measure_link", lambda: "link")
    monkeypatch.setattr(network, "read_text", lambda _: f"flags : {flags}\n")
    monkeypatch.setattr(network, "time_layer", lambda *, lowered: 2.0 if lowered else 3.0)

    measured = network.measure("gloo")

    assert measured == ("gloo", 4, 3, "link", {name: 3.0 - (name != "float32") for name in types})


@pytest.mark.parametrize("rank", [0, 1])
def test_rank_0_prints_what_was_measured(
    network: Any, ranks: Dist, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rank: int
) -> None:
    ranks.rank = rank
    ranks.init_process_group = lambda backend, timeout: ranks.done.append(backend)
    monkeypatch.setattr(network, "import_backend", lambda backend: ranks.done.append(f"import {backend}"))
    monkeypatch.setattr(network, "measure", lambda backend: f"measured by {backend}")
    monkeypatch.setattr(network, "describe", lambda measured: measured)
    monkeypatch.setattr(network, "leave", lambda code: ranks.done.append(f"leave {code}"))

    network.main(["ccl"], {}, "")

    assert ranks.done == ["import ccl", "ccl", "leave 0"]
    assert capsys.readouterr().out == ("measured by ccl\n" if rank == 0 else "")


@pytest.mark.parametrize(
    ("seconds", "latency", "late"),
    [(0.0, 0, 0.0), (0.25, 0, 0.25), (0.5, 0, 0.5), (1.0, 0, 1.5), (0.25, 0.125, 0.5), (0.0, 0.25, 0.5)],
)
def test_what_ranks_send_is_hidden_as_long_as_they_compute(seconds: float, latency: float, late: float) -> None:
    """Two layers are sent one after the other, each once its gradients are there; then what is left, of no bytes.

    Times are parts of a backward pass; a message of each layer, and of the rest, takes two latencies of two ranks.
    """
    model, backward = scaling.Shape(2.0, 2, 0, 0), 3.0 * scaling.BACKWARD
    link = Link(4 / (seconds * backward) if seconds else 1e300, latency * backward / 2)

    step = scaling.estimate_step(scaling.Work(model, 3.0), scaling.SENT["off"], link, 2)

    assert step == pytest.approx(3.0 + late * backward + scaling.SPENT * 8)
    assert scaling.estimate_share(scaling.Work(model, 3.0), scaling.SENT["off"], link, 2) == pytest.approx(1 - 3 / step)


# What prefetch brings, with libraries that are made up.


@pytest.mark.parametrize(
    ("kind", "called"),
    [
        (FILES, ("snapshot", "a", "main", "/cache", ["config.json"])),
        (WEIGHTS, ("snapshot", "a", "main", "/cache", ["config.json", "model.safetensors"])),
        (DATASET, ("dataset", "a", "en", "/cache")),
        (METRIC, ("metric", "a", "en", "/cache")),
        (NLTK, ("nltk", "a", "/data")),
    ],
)
def test_each_kind_is_brought_by_its_library(
    kind: str, called: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, quiet = list[tuple[Any, ...]](), list[str]()
    hub, datasets, evaluate, nltk = (ModuleType(name) for name in ("huggingface_hub", "datasets", "evaluate", "nltk"))
    files = [SimpleNamespace(rfilename=name) for name in ("config.json", "model.safetensors", "a/b.json")]
    vars(hub)["HfApi"] = lambda: SimpleNamespace(model_info=lambda name, revision: SimpleNamespace(siblings=files))
    vars(hub)["snapshot_download"] = lambda name, revision, cache_dir, allow_patterns: done.append(
        ("snapshot", name, revision, cache_dir, allow_patterns)
    )
    vars(datasets)["load_dataset"] = lambda name, config, cache_dir: done.append(("dataset", name, config, cache_dir))
    vars(evaluate)["load"] = lambda name, config, cache_dir: done.append(("metric", name, config, cache_dir))
    logging = SimpleNamespace(disable_progress_bar=lambda: quiet.append("quiet"))
    vars(evaluate)["utils"] = SimpleNamespace(logging=logging)
    place = tmp_path / "data"

    def download(name: str, download_dir: str, quiet: bool) -> bool:
        done.append(("nltk", name, download_dir.removeprefix(str(tmp_path))))
        return name == "a"

    vars(nltk).update(
        download=download, downloader=SimpleNamespace(Downloader=SimpleNamespace(DEFAULT_URL="https://n"))
    )
    for module in (hub, datasets, evaluate, nltk):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("NLTK_DATA", "")
    environ = {"NLTK_DATA": f"{place}{os.pathsep}/other"}
    wanted = Wanted(kind, "a", "en" if kind in (DATASET, METRIC) else None, "main", "/cache")

    prefetch.fetch(wanted, environ)

    assert done == [called] and quiet == ["quiet"] * (kind == METRIC)
    if kind == NLTK:
        assert place.is_dir() and os.environ["NLTK_DATA"] == str(place)
        with pytest.raises(Refusal, match="data of nltk cannot be fetched"):
            prefetch.fetch(wanted._replace(name="b"), environ)


@pytest.mark.parametrize(
    ("fails", "code", "said"),
    [(None, 0, "qa is in /a and /b; it runs with HF_HUB_OFFLINE=1"), (Refusal("a", "b", "c", 1), 1, "a"),
     (KeyboardInterrupt(), 130, ""), (OSError("no\n  network"), 1, "a metric of https://mirror: OSError: no network")],
)  # fmt: skip
def test_prefetch_ends_with_what_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: BaseException | None, code: int,
    said: str,
) -> None:  # fmt: skip
    fetched = list[Wanted]()

    def bring(wanted: Wanted, _: object) -> None:
        fetched.append(wanted)
        if fails:
            raise fails

    bars = ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS", "TQDM_DISABLE")
    for name in bars:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(prefetch.FETCH, METRIC, bring)
    rows = [[METRIC, name, None, None, "/a"] for name in ("a", "b")]
    plan = json.dumps({"wanted": rows, "task": "qa", "caches": ["/a", "/b"], "whole": True})

    assert main([plan], {"HF_ENDPOINT": "https://mirror"}, "") == code
    assert [wanted.name for wanted in fetched] == ["a", "b"][: 1 if fails else 2]
    assert {os.environ.get(name) for name in bars} == {"1"}
    out = capsys.readouterr()
    assert said.split(" of https")[0].removeprefix("a metric") in out.out + out.err


@pytest.mark.parametrize(
    ("backend", "version", "imported"),
    [("ccl", "1.11.0+cpu", ["torch_ccl"]), ("ccl", "1.12.0", ["oneccl_bindings_for_pytorch"]),
     ("ccl", "2.4.0", ["oneccl_bindings_for_pytorch"]), ("gloo", "1.11.0", [])],
)  # fmt: skip
@pytest.mark.parametrize("total", [1, 2])
def test_a_probe_reduces_a_number_with_the_backend(
    monkeypatch: pytest.MonkeyPatch, backend: str, version: str, imported: list[str], total: int
) -> None:
    torch, dist = ModuleType("torch"), ModuleType("torch.distributed")
    done = list[object]()
    vars(torch).update(__version__=version, __file__="/torch.py", distributed=dist,
                       ones=lambda _: SimpleNamespace(item=lambda: total))  # fmt: skip
    vars(dist).update(HashStore=lambda: "store", all_reduce=lambda number: done.append("reduced"))
    vars(dist)["init_process_group"] = lambda backend, **options: done.append((backend, options))
    names = ("torch_ccl", "oneccl_bindings_for_pytorch")

    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name) if name in imported else None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", dist)
    facts: dict[str, Any] = {}

    with pytest.raises(ValueError, match="the sum of a single 1 is 2") if total == 2 else nullcontext():
        probe.examine_torch(facts, backend)

    assert facts == {"torch": version, "file": "/torch.py"}
    assert done == [(backend, {"store": "store", "rank": 0, "world_size": 1}), "reduced"]


@pytest.mark.parametrize("backend", ["gloo", "ccl", None])
def test_ranks_of_a_program_end_together(monkeypatch: pytest.MonkeyPatch, network: Any, backend: str | None) -> None:
    leave = sys.modules["multinode_image.programs.leave"]
    done = list[str]()
    dist = SimpleNamespace(
        is_initialized=lambda: backend is not None, get_backend=lambda: backend,
        barrier=lambda: done.append("barrier"), destroy_process_group=lambda: done.append("destroy"),
    )  # fmt: skip

    def end(code: int) -> None:
        done.append(f"end {code}")
        raise SystemExit

    monkeypatch.setattr(leave, "dist", dist)
    monkeypatch.setattr(leave, "time", SimpleNamespace(sleep=lambda _: done.append("sleep")))
    monkeypatch.setattr(leave, "os", SimpleNamespace(_exit=end))
    with pytest.raises(SystemExit) as ended:
        leave.leave(3)

    met = ["barrier", "sleep"] if backend else []
    assert done == [*met, "destroy" if backend == "ccl" else "end 3"]
    assert backend != "ccl" or ended.value.code == 3
