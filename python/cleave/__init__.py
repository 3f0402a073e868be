"""cleave from Python: plan, schedule, verify and train by the program of that name.

    import cleave
    report = cleave.train({"model": {"preset": "gpt-tiny"}, "data": {"path": "text.txt"}},
                          on_step=lambda step: print(step["step"], step["loss"]))
    weights = cleave.weights(report["checkpoint"])          # numpy arrays by name

Every call runs the program `cleave` (on PATH, or where the environment variable CLEAVE points) and returns what it says
with --json; what it refuses becomes an exception with its sentence. numpy is needed only where arrays go in or out.
"""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

__all__ = ["Error", "UsageError", "DoesNotFit", "DeviceLost", "plan", "schedule", "verify", "train", "evaluate",
           "generate", "weights", "version"]


class Error(Exception):
    """The program failed; str() is its sentence."""


class UsageError(Error):
    """The config or a flag is wrong (exit code 2)."""


class DoesNotFit(Error):
    """The model needs more memory than the devices have (exit code 3)."""


class DeviceLost(Error):
    """A device was lost or did not answer (exit code 4)."""


_ERRORS = {2: UsageError, 3: DoesNotFit, 4: DeviceLost}


def _program():
    return os.environ.get("CLEAVE", "cleave")


def _start(arguments):
    try:
        return subprocess.Popen([_program(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise Error(f"there is no program {_program()}; put it on PATH, or point CLEAVE at it") from None


def _sentence(text):
    """What the program complained of: its last message, without its name."""
    lines = text.strip().split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("cleave: ")]
    return "\n".join(lines[starts[-1]:])[len("cleave: "):] if starts else text.strip()


def _answer(process, out, err, allowed=(0,)):
    if process.returncode in allowed:
        return json.loads(out)
    raise _ERRORS.get(process.returncode, Error)(_sentence(err))


def _run(*arguments, allowed=(0,)):
    process = _start([*arguments, "--json"])
    return _answer(process, *process.communicate(), allowed=allowed)


def _flags(options):
    """sequence_length=3 becomes --sequence-length 3; None and False are left out, True stands alone."""
    flags = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        flags.append("--" + name.replace("_", "-"))
        if value is not True:
            flags.append(str(value))
    return flags


def version():
    """Version, commit, compiler, features and instruction sets."""
    return _run("version")


def plan(config=None, **options):
    """What a layout takes: of a config (a path, TOML text or a dict), or `model=`, `cluster=`, `batch=` for GPUs."""
    if config is None:
        return _run("plan", *_flags(options), allowed=(0, 3))
    with _config_file(config) as path:
        return _run("plan", path, *_flags(options), allowed=(0, 3))


def schedule(kind, stages, microbatches, **options):
    """Times, bubble and memory of a pipeline schedule, proven."""
    return _run("schedule", kind, *_flags({"stages": stages, "microbatches": microbatches, **options}))


def verify(program):
    """What is wrong with a program (a path, or its text): a list of violations, empty if it is proven."""
    if isinstance(program, str) and "\n" in program:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(program)
            file.flush()
            return _run("verify", file.name, allowed=(0, 1))["violations"]
    return _run("verify", str(program), allowed=(0, 1))["violations"]


def evaluate(directory, data, **options):
    """Loss, tokens, perplexity and bytes per token of a run's model over all of a file."""
    return _run("evaluate", str(directory), "--data", str(data), *_flags(options))


def generate(directory, prompt, **options):
    """Text that the model of a run's directory goes on with."""
    return _run("generate", str(directory), "--prompt", prompt, *_flags(options))


def _toml(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, (str, pathlib.PurePath)):
        return json.dumps(str(value), ensure_ascii=False)
    return repr(value)


def _config_text(config):
    """A dict of sections as TOML; text and paths as they are."""
    if not isinstance(config, dict):
        text = str(config)
        return text if "\n" in text else pathlib.Path(text).read_text()
    lines = []
    for section, keys in config.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"


class _config_file:
    """A config as a file for as long as the program needs it."""

    def __init__(self, config):
        self._text = _config_text(config)

    def __enter__(self):
        self._file = tempfile.NamedTemporaryFile("w", suffix=".toml")
        self._file.write(self._text)
        self._file.flush()
        return self._file.name

    def __exit__(self, *_):
        self._file.close()


def _resolved_out(path, settings):
    """Where the run will write its log, by the program's own reading of the config."""
    process = _start(["train", path, *settings, "--print-config"])
    out, err = process.communicate()
    if process.returncode != 0:
        raise _ERRORS.get(process.returncode, Error)(_sentence(err))
    for line in out.split("\n"):
        if line.startswith("out = "):
            return pathlib.Path(json.loads(line[len("out = "):]))
    return pathlib.Path("out")


class _Log:
    """The lines of log.jsonl that were not there before."""

    def __init__(self, path):
        self._path = path
        self._rest = ""
        self._begun = path.stat().st_mtime_ns if path.exists() else None
        self._at = 0

    def new_lines(self):
        if not self._path.exists():
            return
        if self._begun is not None:
            if self._path.stat().st_mtime_ns == self._begun:
                return  # still as an earlier run left it
            self._begun = None
        with open(self._path) as file:
            file.seek(self._at)
            self._rest += file.read()
            self._at = file.tell()
        *whole, self._rest = self._rest.split("\n")
        for line in map(json.loads, whole):
            if "step" in line:
                yield line


def train(config, *, tokens=None, on_step=None, resume=False, overwrite=False, settings=None):
    """Trains as a config says (a path, TOML text, or a dict of sections) and returns the report.

    `on_step` is called with every line of the log (docs/logs.md) soon after its step; if it returns False, the run stops
    after its step, saved. `tokens`, an array of whole numbers, takes the place of data.path. `settings`, a dict such as
    {"train.steps": 50}, overrides keys. Control-C stops the run as on a terminal.
    """
    overrides = dict(settings or {})
    with tempfile.TemporaryDirectory() as scratch, _config_file(config) as path:
        if tokens is not None:
            import numpy
            file = os.path.join(scratch, "tokens.u32.bin")
            numpy.asarray(tokens).astype("<u4").tofile(file)
            overrides["data.path"] = file
        flags = [word for key, value in overrides.items() for word in ("--set", f"{key}={_toml(value)}")]
        log = _Log(_resolved_out(path, flags) / "log.jsonl") if on_step else None
        flags += ["--resume"] * bool(resume) + ["--overwrite"] * bool(overwrite) + ["--json"]
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen([_program(), "train", path, *flags], stdout=out, stderr=err)
            _follow(process, log, on_step)
            out.seek(0)
            err.seek(0)
            return _answer(process, out.read(), err.read())


def _follow(process, log, on_step):
    """Until the run has ended and every line of its log was heard of."""
    stopped = False
    while True:
        try:
            ended = process.poll() is not None
            for line in log.new_lines() if log else ():
                if on_step(line) is False and not stopped:
                    stopped = True
                    process.send_signal(signal.SIGINT)
            if ended:
                return
            time.sleep(0.02)
        except KeyboardInterrupt:  # the terminal has told the program as well
            stopped = True


_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


def weights(path):
    """Tensors by name, as numpy arrays: of a .safetensors file, a checkpoint, or a run's directory (its latest)."""
    import numpy
    path = pathlib.Path(path)
    candidates = [path, path / "model.safetensors", path / "checkpoints" / "latest" / "model.safetensors"]
    file = next((c for c in candidates if c.is_file()), None)
    if file is None:
        raise UsageError(f"there is no model.safetensors in {path}")
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":  # the upper half of an f32
            wide = numpy.frombuffer(data[begin:end], "<u2").astype("<u4") << 16
            tensors[name] = wide.view("<f4").reshape(entry["shape"])
        else:
            tensors[name] = numpy.frombuffer(data[begin:end], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors
