"""A training says how far it is in the status of its TrainJob, where Kubeflow's controller asks for that."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.support.harness import env_options, run

# What the controller's server gets, a line for each update.
SERVER = """
import http.server
class Status(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        open("/tmp/status", "a").write(self.headers["Authorization"] + " " + text + "\\n")
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 8123), Status)
open("/tmp/ready", "w").close()
server.serve_forever()
"""
VARIABLES = {
    "KUBEFLOW_TRAINER_SERVER_URL": "http://127.0.0.1:8123/status",
    "KUBEFLOW_TRAINER_SERVER_TOKEN": "/tmp/token",
}


@pytest.mark.slow  # the callback is the Trainer's own
def test_a_training_reports_its_progress_to_the_trainjob(image: str) -> None:
    """By the Trainer's own callback (transformers/integrations/integration_utils.py, KubeflowCallback), from rank 0."""
    wait = "until [ -e /tmp/ready ]; do sleep 0.1; done"
    command = f"echo secret > /tmp/token; python3 -c {shlex.quote(SERVER)} & {wait}; multinode --nproc 2 smoke"

    done = run(image, "bash", "-c", f"{command} >&2; cat /tmp/status", options=env_options(VARIABLES))

    assert done.code == 0
    updates = [line.partition("secret ") for line in done.out.splitlines()]
    assert {before for before, _, _ in updates} == {"Bearer "}
    progress = [json.loads(text)["trainerStatus"]["progressPercentage"] for _, _, text in updates]
    assert progress[0] == 0 and progress[-1] == 100 and progress == sorted(progress)
