"""`MULTINODE_METRICS`: a process beside a training that answers Prometheus, from what the training has left by then.

It is no child of the training, which may count its children, and ends with it.
"""

from __future__ import annotations

import os
import signal
import socket
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import NoReturn

from multinode_image.printing.streams import print_note
from multinode_image.processes import CAUGHT
from multinode_image.report.metrics import TYPE, write_metrics
from multinode_image.report.trainings import find_trainings, read_training

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
