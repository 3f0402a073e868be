"""cleave from Python: plan, schedule, verify and train.

    import cleave
    report = cleave.train({"model": {"preset": "gpt-tiny"}, "data": {"path": "text.txt"}},
                          on_step=lambda step: print(step["step"], step["loss"]))
    weights = cleave.weights(report["checkpoint"])          # numpy arrays by name

Every call is one of libcleave.so (cleave.h), which runs the program; what it refuses becomes an exception with its sentence.
numpy is needed only where arrays go in or out.
"""
import ctypes
import json
import os
import pathlib
import threading

__all__ = ["Error", "UsageError", "DoesNotFit", "DeviceLost", "plan", "schedule", "verify", "train", "evaluate",
           "generate", "weights", "version"]


class Error(Exception):
    """It failed; str() is the sentence."""


class UsageError(Error):
    """The config or an option is wrong."""


class DoesNotFit(Error):
    """The model needs more memory than the devices have."""


class DeviceLost(Error):
    """A device was lost or did not answer."""


_ERRORS = {2: UsageError, 3: DoesNotFit, 4: DeviceLost}
_ON_STEP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _Training(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("config", ctypes.c_char_p), ("options", ctypes.c_char_p),
                ("tokens", ctypes.POINTER(ctypes.c_int32)), ("token_count", ctypes.c_size_t),
                ("on_step", _ON_STEP), ("context", ctypes.c_void_p)]


def _open():
    """The library: where CLEAVE_LIBRARY points, beside this module as installed, or where the system finds it."""
    lib = pathlib.Path(__file__).resolve().parent.parent.parent.parent  # PREFIX/lib/python3.11/dist-packages/cleave
    beside = [folder / "libcleave.so.0" for folder in (lib, *sorted(lib.glob("*-linux-gnu")), lib.parent / "lib64")]
    found = [os.environ.get("CLEAVE_LIBRARY"), *(str(path) for path in beside if path.exists()), "libcleave.so.0"]
    path = next(path for path in found if path)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"cannot load {path}: {error}; install libcleave0, or point CLEAVE_LIBRARY at libcleave.so") from None
    texts = [ctypes.POINTER(ctypes.c_void_p)] * 2
    library.cleave_ask.argtypes = [ctypes.c_char_p, ctypes.c_char_p, *texts]
    library.cleave_train.argtypes = [ctypes.POINTER(_Training), *texts]
    library.cleave_free.argtypes = [ctypes.c_void_p]
    library.cleave_free.restype = None
    return library


_library = _open()


def _taken(text):
    """A text of the library's, which it then frees; None stays None."""
    if not text.value:
        return None
    copy = ctypes.string_at(text.value).decode()
    _library.cleave_free(text)
    return copy


def _call(function, *arguments):
    """(answer, error, exception to raise for it)"""
    answer, error = ctypes.c_void_p(), ctypes.c_void_p()
    status = function(*arguments, ctypes.byref(answer), ctypes.byref(error))
    return _taken(answer), _taken(error), _ERRORS.get(status, Error) if status else None


def _ask(verb, options):
    """An answer may be a no, such as a plan that does not fit: it is returned like any other."""
    answer, error, exception = _call(_library.cleave_ask, verb.encode(), json.dumps(options, default=str).encode())
    if answer is None:
        raise (exception or Error)(error)
    return json.loads(answer)


def version():
    """Version, commit, compiler, features and instruction sets."""
    return _ask("version", {})


def plan(config=None, **options):
    """What a layout takes: of a config (a path, TOML text or a dict), or `model=`, `cluster=`, `batch=` for GPUs.

    Further names are the options of `cleave plan`. `["fits"]` says whether it fits."""
    if config is not None:
        options["text"] = _config_text(config)
    return _ask("plan", options)


def schedule(kind, stages=None, microbatches=None, **options):
    """Times, bubble and memory of a pipeline schedule, proven. Further names are the options of `cleave schedule`."""
    return _ask("schedule", {"kind": kind, "stages": stages, "microbatches": microbatches, **options})


def verify(program):
    """What is wrong with a program (a path, or its text): a list of violations, empty if it is proven."""
    text = str(program)
    return _ask("verify", {"text": text} if "\n" in text else {"file": text})["violations"]


def evaluate(directory, data, **options):
    """Loss, tokens, perplexity and bytes per token of a run's model over all of a file."""
    return _ask("evaluate", {"dir": str(directory), "data": str(data), **options})


def generate(directory, prompt, **options):
    """Text that the model of a run's directory goes on with. Further names are the options of `cleave generate`."""
    return _ask("generate", {"dir": str(directory), "prompt": prompt, **options})


def _toml(value):
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        value = value.tolist()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(v)}" for key, v in value.items()) + "}"
    if isinstance(value, (str, pathlib.PurePath)):
        return json.dumps(str(value), ensure_ascii=False)
    return repr(value)


def _config_text(config):
    """A dict of sections as TOML; the text of a file; text as it is."""
    if not isinstance(config, dict):
        text = str(config)
        return text if "\n" in text else pathlib.Path(text).read_text()
    lines = [f"{key} = {_toml(value)}" for key, value in config.items() if not isinstance(value, dict)]
    for section, keys in config.items():
        if isinstance(keys, dict):
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in keys.items() if value is not None]
    return "\n".join(lines) + "\n"


class _Listener:
    """Calls on_step for the library, on the thread that waits for the run; what it raises ends the run and is raised again."""

    def __init__(self, on_step):
        self._on_step = on_step
        self.raised = None
        self.stop = False
        self.function = _ON_STEP(self._hear)

    def _hear(self, line, _):
        try:
            if self._on_step and self._on_step(json.loads(line)) is False:
                self.stop = True
        except BaseException as error:  # pylint: disable=broad-except
            self.raised = self.raised or error
            self.stop = True
        return int(self.stop)


def train(config, *, tokens=None, on_step=None, resume=False, overwrite=False, settings=None, **options):
    """Trains as a config says (a path, TOML text, or a dict of sections) and returns the report.

    `on_step` is called with every line of the log (docs/logs.md) after its step; if it returns False, the run stops there,
    saved. `tokens`, an array of whole numbers, takes the place of data.path. `settings`, a dict such as
    {"train.steps": 50}, overrides keys. Further names are the options of `cleave train`, such as init_from. Control-C stops
    the run after the step in hand, saved.
    """
    options.update(resume=resume, overwrite=overwrite,
                   set=[f"{key}={_toml(value)}" for key, value in (settings or {}).items()])
    listener = _Listener(on_step)
    training = _Training(size=ctypes.sizeof(_Training), config=_config_text(config).encode(),
                         options=json.dumps(options, default=str).encode(), on_step=listener.function)
    if tokens is not None:
        import numpy
        array = numpy.ascontiguousarray(tokens, dtype=numpy.int32).reshape(-1)
        training.tokens = array.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
        training.token_count = array.size
    return _wait_for(training, listener)


def _wait_for(training, listener):
    """On a thread of its own, so that this one can be interrupted."""
    result, ended, interrupted = [], threading.Event(), None

    def run():
        result.append(_call(_library.cleave_train, ctypes.byref(training)))
        ended.set()

    threading.Thread(target=run).start()
    while not ended.is_set():
        try:
            ended.wait(0.2)
        except KeyboardInterrupt as error:
            interrupted = error
            listener.stop = True
    answer, error, exception = result[0]
    if listener.raised or interrupted:
        raise listener.raised or interrupted
    if exception:
        raise exception(error)
    return json.loads(answer)


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
