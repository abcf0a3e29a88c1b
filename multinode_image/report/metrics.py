"""What a training has left, as Prometheus reads it: its text format, version 0.0.4, written by hand to cost no start.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import NoReturn

from multinode_image.printing.streams import print_note
from multinode_image.processes import CAUGHT
from multinode_image.reading import read_number
from multinode_image.report.trainings import Point, Training, find_trainings, measure, read_training
from multinode_image.results.states import SPEED, WAITING

TYPE = "text/plain; version=0.0.4; charset=utf-8"
# What each says, by its name behind PREFIX.
PREFIX = "multinode_training_"
ABOUT = {
    "step": "The last step that the training has kept.",
    "steps": "The steps that it will have.",
    "timestamp_seconds": "When that step was done.",
    "samples_per_second": "The speed of all ranks together.",
    "waiting_ratio": "The part of the time in which rank 0 has waited for gradients of others.",
    "starts_total": "How often it was started.",
    "logged": "What the Trainer has logged last, by its name.",
}


def write_metrics(training: Training | None) -> str:
    """Return the metrics of a training; nothing where there is none yet."""
    rows = dict[str, list[str]]()
    for name, label, value in list_values(training) if training else ():
        rows.setdefault(name, []).append(f"{PREFIX}{name}{label} {write_value(value)}")
    return "".join(f"{write_head(name)}{chr(10).join(lines)}\n" for name, lines in rows.items())


def write_head(name: str) -> str:
    """Return the two lines that say what a metric is."""
    kind = "counter" if name.endswith("_total") else "gauge"
    return f"# HELP {PREFIX}{name} {ABOUT[name]}\n# TYPE {PREFIX}{name} {kind}\n"


def list_values(training: Training) -> Iterator[tuple[str, str, float]]:
    """Yield the name of each metric, its label, and its value."""
    logged = {name: points[-1] for name, points in training.curves.items() if points}
    if training.step or training.starts:
        yield "step", "", training.step
    if training.total:
        yield "steps", "", training.total
    if (now := read_number(training.facts.get("time"))) is not None:
        yield "timestamp_seconds", "", now
    yield from list_rates(training, logged)
    if training.starts:
        yield "starts_total", "", len(training.starts)
    for name, (_, value) in logged.items():
        yield "logged", f'{{name="{escape_label(name)}"}}', value


def list_rates(training: Training, logged: dict[str, Point]) -> Iterator[tuple[str, str, float]]:
    """Yield the speed and the waiting, which are taken out of what is logged; waiting is per cent there.

    What the last start has logged counts, and before it has logged anything what was measured since its first step.
    """
    began, measured = read_number(training.facts.get("step")) or 0, measure(training.starts[-1:])
    for name, known, whole in ((SPEED, "samples_per_second", 1), (WAITING, "waiting_ratio", 100)):
        step, value = logged.pop(name, (-1, math.nan))
        if step > began or name in measured:
            yield known, "", (value if step > began else measured[name]) / whole


def escape_label(text: str) -> str:
    """Return a value of a label as it stands between quotation marks."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_value(value: float) -> str:
    """Return a number as Go reads it."""
    if math.isnan(value):
        return "NaN"
    return f"{value!r}" if math.isfinite(value) else ("+Inf" if value > 0 else "-Inf")


# `MULTINODE_METRICS`: a process beside a training that answers Prometheus, from what the training has left by then.
#
# It is no child of the training, which may count its children, and ends with it.

PATH = "/metrics"
# Seconds after which it looks whether the training is there, and in which a client has to ask.
TICK, PATIENCE = 1, 5


def serve_beside(port: int, directory: str) -> None:
    """Start the process for this one and the program that it becomes; print a note where the port cannot be had."""
    try:
        listener = open_listener(port)
    except OSError as error:
        print_note(f"no metrics: port {port} cannot be used ({error.strerror})")
        return
    training, child = os.getpid(), os.fork()
    if child:
        listener.close()
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            serve_metrics(listener, directory, training)
    finally:
        os._exit(0)


def open_listener(port: int) -> socket.socket:
    """Return a socket for any address of this machine."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def serve_metrics(listener: socket.socket, directory: str, training: int) -> NoReturn:
    """Answer while a process is there; what signals a training must not end this before it."""
    os.setsid()
    for number in CAUGHT:
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # who reads what the training says must not wait for this process
        os.dup2(nothing, stream)

    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self) -> None:
            write_answer(self, directory)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.timeout = listener, TICK
    while os.path.exists(f"/proc/{training}"):
        server.handle_request()
    os._exit(0)


def write_answer(request: BaseHTTPRequestHandler, directory: str) -> None:
    """Answer with the metrics of the training that has written last."""
    if request.path.partition("?")[0] != PATH:
        request.send_error(404)
        return
    training = next(map(read_training, find_trainings(directory)), None)
    text = write_metrics(training).encode()
    request.send_response(200)
    request.send_header("Content-Type", TYPE)
    request.send_header("Content-Length", str(len(text)))
    request.end_headers()
    request.wfile.write(text)
