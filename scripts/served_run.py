"""A served run with its devices, as campaigns disturb it: scripts/campaign_loss, scripts/campaign_load."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

CLEAVE = os.path.abspath(os.environ.get("CLEAVE", "build/release/cleave"))
PATIENCE = 300
GONE = r"(?:is lost|has left): "
LOST = r"\(d\d+\) is lost: "

# What a device does at each place of a run: the function that it enters there.
PLACES = {
    "F": "engine::Stage::forward", "I": "engine::Stage::backward_input", "W": "engine::Stage::backward_weight",
    "B": "engine::Stage::backward(", "R": "engine::Stage::recompute",
    "SEND": "comm::Communicator::send(", "RECV": "comm::Communicator::receive(",
    "message posted": "comm::TcpTransport::post", "WAIT:SEND/RECV": "comm::Transport::wait(",
    "REDUCE": "engine::GradientSync::reduce", "WAIT:REDUCE": "engine::GradientSync::finish(",
    "TIE": "engine::GradientSync::tie",
    "GATHER": "engine::ParameterSync::gather", "REFRESH": "engine::ParameterSync::refresh(",
    "WAIT:GATHER/REFRESH": "engine::ParameterSync::finish(",
    "OUT/IN": "engine::Moves::post", "WAIT:OUT/IN": "engine::Moves::finish",
    "NORM": "train::StateCopies::before_norm", "STEP begins": "train::StateCopies::before_update",
    "STEP is done": "train::StateCopies::after_update", "copy begins": "train::StateCopies::begin_step",
    "saving": "train::save(", "planning": "train::compile_step", "state is looked for": "train::find_state",
    "state moves": "train::move_state", "joining": "comm::ServerLine::join", "meeting": "comm::TcpLines::TcpLines",
    "the run's files": "train::fetch(",
}
AT_THE_BEGINNING = ["joining", "meeting", "the run's files", "planning", "state is looked for", "state moves", "F"]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class Code:
    """Where functions of the program lie."""

    def __init__(self, program):
        listed = subprocess.run(["nm", "-C", "--defined-only", program], capture_output=True, text=True, check=True)
        self._at = {}
        for line in listed.stdout.splitlines():
            address, kind, name = line.split(" ", 2)
            if kind in "Tt" and name.startswith("cleave::"):
                self._at.setdefault(name, int(address, 16))
        with open(program, "rb") as file:
            self._relocated = struct.unpack_from("<H", file.read(20), 16)[0] == 3  # ET_DYN

    def places(self):
        """Where each of PLACES begins. One that the program does not have was renamed: it would never be struck."""
        found = {}
        for place, name in PLACES.items():
            whole = "cleave::" + name
            matches = [at for text, at in self._at.items() if (text + "(").startswith(whole.rstrip("(") + "(")
                       and "[clone" not in text]
            found[place] = matches
        missing = [f"{place} (cleave::{PLACES[place]})" for place, matches in found.items() if not matches]
        if missing:
            raise SystemExit("the program has no function at these places of a run: " + ", ".join(missing))
        return found

    def hold(self, pid, addresses):
        """Writes a jump to itself at the entry of each: whoever enters one stays there. What was there before, by
        address; nothing if the process is gone."""
        try:
            with open(f"/proc/{pid}/maps") as maps:
                base = int(maps.readline().split("-")[0], 16) if self._relocated else 0
            before = {}
            with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
                for address in addresses:
                    memory.seek(base + address)
                    before[base + address] = memory.read(len(JUMP_TO_ITSELF))
                    memory.seek(base + address)
                    memory.write(JUMP_TO_ITSELF)
            return before
        except OSError:
            return {}


JUMP_TO_ITSELF = b"\xeb\xfe"


def stopped_at(pid, addresses):
    """Stops a process; true, and it stays so, if one of its threads is at one of the addresses."""
    try:
        os.kill(pid, signal.SIGSTOP)
        for thread in os.listdir(f"/proc/{pid}/task"):
            for _ in range(50):
                with open(f"/proc/{pid}/task/{thread}/syscall") as file:
                    words = file.read().split()
                if words != ["running"]:
                    break
                time.sleep(0.001)
            if len(words) > 1 and int(words[-1], 16) in addresses:
                return True
        os.kill(pid, signal.SIGCONT)
    except OSError:
        pass
    return False


def restore(pid, before):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for address, code in before.items():
            memory.seek(address)
            memory.write(code)


class Relay:
    """Passes bytes on to `port` until it is told to cut what it has."""

    def __init__(self, port):
        self._port, self._open = port, []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            near, _ = self._listener.accept()
            try:
                far = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                near.close()
                continue
            self._open += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(a, b), daemon=True).start()

    @staticmethod
    def _pass_on(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self):
        for end in self._open:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._open = []


class Run:
    """`keys` of the config beside those in `text`; the last of the devices are started by join()."""

    def __init__(self, directory, number, text, keys, devices):
        self.out = f"{directory}/run{number}"
        self._directory, self._number, self._started = directory, number, 0
        self._config = f"{directory}/run{number}.toml"
        with open(self._config, "w") as file:
            file.write(text)
        self._keys = keys
        self.said = f"{directory}/server{number}.err"
        self.port = free_port()
        self.serve()
        self.relay = Relay(self.port)
        self.killed = []
        self.devices = [self.join(i == 0) for i in range(devices - 1)]

    def serve(self, *flags):
        command = [CLEAVE, "serve", self._config, "--insecure", "--json", "--listen", f"127.0.0.1:{self.port}", *flags]
        for key in self._keys:
            command += ["--set", key]
        before = len(self.found(r"listening on ")) if os.path.exists(self.said) else 0
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=open(self.said, "a"), text=True)
        self.wait_for(r"listening on ", before + 1)

    def await_step_after_restart(self):
        """That the server which was started again has done a step: its devices run the layout that it was given."""
        lines = lambda: sum(1 for _ in open(f"{self.out}/log.jsonl")) if os.path.exists(f"{self.out}/log.jsonl") else 0
        end, before = time.time() + PATIENCE, lines()
        while time.time() < end and self.server.poll() is None and lines() <= before:
            time.sleep(0.02)

    def plans_as_planned(self):
        """How often a device said at the end of a plan that it had held what was planned. Those who say otherwise end the
        campaign in finish()."""
        return sum(open(said).read().count(" at most, as planned") for said in self._all_said())

    def _all_said(self):
        return [self.said, *(f"{self._directory}/device{self._number}.{i + 1}.err" for i in range(self._started))]

    def restart_server(self):
        self.server.send_signal(signal.SIGKILL)
        self.server.communicate()
        for device in self.devices:
            device.joins = 1
        self.serve("--resume")

    def found(self, pattern):
        with open(self.said) as file:
            return re.findall(pattern, file.read())

    def joins_of(self, device):
        """How often it has joined the server which is there now."""
        with open(self.said) as file:
            return file.read().rpartition("listening on ")[2].count(f'"{device.name}" at ')

    def await_joined(self, device):
        """That it is with the server which is there now, after all that befell it."""
        end = time.time() + 30
        while time.time() < end and self.server.poll() is None and device.poll() is None:
            if self.joins_of(device) >= device.joins:
                return
            time.sleep(0.02)

    def expect_again(self, device):
        """It finds its connection broken, and joins once more."""
        device.joins = self.joins_of(device) + 1

    def wait_for(self, pattern, count=1, patience=PATIENCE):
        """What the server said; it may have ended before it said it."""
        end = time.time() + patience
        while time.time() < end:
            ended = self.server.poll() is not None
            found = self.found(pattern)
            if len(found) >= count or ended:
                return found
            time.sleep(0.02)
        if patience < PATIENCE:
            return self.found(pattern)
        raise SystemExit(f"the server never said {pattern}:\n{open(self.said).read()[-3000:]}")

    def await_first_step(self):
        end = time.time() + PATIENCE
        while time.time() < end and self.server.poll() is None:
            if os.path.exists(f"{self.out}/log.jsonl") and os.path.getsize(f"{self.out}/log.jsonl") > 0:
                return
            time.sleep(0.02)

    def join(self, through_relay=False):
        self._started += 1
        port = self.relay.port if through_relay else self.port
        environment = {**os.environ, "XDG_CACHE_HOME": f"{self._directory}/cache{self._started}"}
        said = f"{self._directory}/device{self._number}.{self._started}.err"
        process = subprocess.Popen([CLEAVE, "join", f"127.0.0.1:{port}", "--insecure", "--retry", "60", "--name",
                                    f"d{self._started}"],
                                   env=environment, stdout=subprocess.DEVNULL, stderr=open(said, "w"))
        process.said = said
        process.joins = 1
        process.name = f"d{self._started}"
        return process

    def replace(self, victim, after=0.0):
        self.killed.append(self.devices[victim])
        time.sleep(after)
        self.devices[victim] = self.join(victim == 0)

    @staticmethod
    def code_of(device):
        """0 also for one that was cut off, or joined, when the run was just over."""
        code = device.wait(timeout=PATIENCE)
        with open(device.said) as file:
            return 0 if code == 4 and "the server at " in file.read() else code

    def finish(self):
        """The report of the server, or why there is none."""
        out, _ = self.server.communicate(timeout=PATIENCE)
        codes = [self.code_of(device) for device in self.devices]
        for process in self.killed:
            process.wait()
        if self.server.returncode != 0 or any(codes):
            return f"codes {self.server.returncode} and {codes}"
        for said in self._all_said():
            with open(said) as file:
                if wrong := re.search(r".* B were planned\n", file.read()):
                    return wrong[0]
        report = json.loads(out)
        for device in report["devices"]:
            if device["peak_bytes"] != device["planned_bytes"]:
                return f"device {device} has other bytes than planned"
        return report

    def stop(self):
        for process in [self.server, *self.devices]:
            if process.poll() is None:
                process.kill()
