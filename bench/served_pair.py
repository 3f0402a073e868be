"""A served run on two devices, from the first word of the server to its report: for the benches of the wire."""

import json
import os
import re
import subprocess

PATIENCE = 120  # seconds


class Pair:
    """What is started is ended, however the bench ends."""

    def __init__(self, server, environment=None):
        """`server`: the command of cleave serve, with --json."""
        self._environment, self._device = environment, None
        self._server = subprocess.Popen(server, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        said = ""
        while not (found := re.search(r"listening on ([\d.:]+\d)", said)):
            line = self._server.stderr.readline()
            said += line
            if not line:
                raise SystemExit(f"{' '.join(server)} ended with code {self._server.wait()}:\n{said}")
        self.address, self.said = found[1], said

    def report(self, device):
        """Of a run that must succeed; `device`: the command of cleave join."""
        self._device = subprocess.Popen(device, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env=self._environment)
        try:
            out, said = self._server.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise SystemExit(f"the run on {self.address} is not done after {PATIENCE} s") from None
        self.said += said
        if self._server.returncode != 0:
            raise SystemExit(f"cleave serve ended with code {self._server.returncode}:\n{said}")
        _, said = self._device.communicate(timeout=PATIENCE)
        if self._device.returncode != 0:
            raise SystemExit(f"cleave join ended with code {self._device.returncode}:\n{said}")
        return json.loads(out)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in (self._server, self._device):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()


def over_loopback(cleave, directory, keys):
    """Without TLS, of `directory`/run.toml."""
    environment = {**os.environ, "XDG_CACHE_HOME": f"{directory}/cache"}
    server = [cleave, "serve", f"{directory}/run.toml", "--insecure", "--json", "--overwrite", "--listen", "127.0.0.1:0"]
    for key in keys:
        server += ["--set", key]
    with Pair(server, environment) as pair:
        return pair.report([cleave, "join", pair.address, "--insecure"])
