"""Names that were measured to break in default mode on torch 2.13, each in a function of its own, by what to do instead.

`threading.Lock.acquire` is the method of an object that one call of `threading.Lock` made; `torch.nn.LSTM.__call__` is a call
of the object itself.
"""

from __future__ import annotations

TIMES = (
    "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "time.monotonic_ns",
    "time.process_time", "time.process_time_ns", "time.thread_time", "time.strftime", "time.localtime", "time.gmtime",
    "time.ctime", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
)  # fmt: skip
DRAWS = (
    "random.random", "random.choice", "random.choices", "random.shuffle", "random.sample", "random.gauss",
    "random.normalvariate", "random.betavariate", "random.expovariate", "random.triangular", "random.getrandbits",
    "numpy.random.permutation", "numpy.random.shuffle", "numpy.random.default_rng", "secrets.*", "uuid.uuid1",
    "uuid.uuid4", "os.urandom", "random.uniform", "random.randint", "random.randrange",
)  # fmt: skip
# Dynamo passes these numbers in; only a branch on them, or an index, breaks.
TRACED = ("random.uniform", "random.randint", "random.randrange")
SEEDS = (
    "random.seed", "random.getstate", "random.setstate", "torch.manual_seed", "torch.random.manual_seed",
    "torch.cuda.manual_seed", "torch.cuda.manual_seed_all", "torch.initial_seed", "torch.random.initial_seed",
    "torch.get_rng_state", "torch.random.get_rng_state", "torch.cuda.get_rng_state", "torch.set_rng_state",
    "torch.Generator", "torch.Generator.*", "torch.default_generator.*",
)  # fmt: skip
# Random numbers of a given generator: `torch.rand(2, generator=g)`.
GENERATED = tuple(f"torch.{name}" for name in ("rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial")) + tuple(
    f"torch.Tensor.{name}" for name in ("uniform_", "normal_", "exponential_", "bernoulli_")
)  # fmt: skip
# `random_` breaks as it is, `uniform_` with a keyword `from`.
FILLED = ("torch.Tensor.random_",)
QUESTIONS = (
    "os.getpid", "os.getppid", "os.getcwd", "os.getlogin", "os.cpu_count", "os.uname", "os.times", "os.getloadavg",
    "os.sched_getaffinity", "os.listdir", "os.scandir", "os.walk", "os.stat", "os.path.exists", "os.path.isfile",
    "os.path.isdir", "os.path.getsize", "os.path.abspath", "os.path.realpath", "glob.glob", "pathlib.Path.cwd",
    "pathlib.Path.exists", "pathlib.Path.is_file", "pathlib.Path.is_dir", "pathlib.Path.iterdir", "pathlib.Path.glob",
    "pathlib.Path.resolve", "pathlib.Path.stat", "pathlib.Path.read_text", "socket.gethostname", "resource.getrusage",
    "locale.getlocale", "json.dumps", "json.loads", "pprint.pformat", "hashlib.*", "zlib.crc32", "base64.*", "bisect.*",
    "statistics.mean", "decimal.Decimal", "decimal.getcontext", "fractions.Fraction", "array.array", "csv.reader",
    "urllib.parse.quote", "datetime.datetime", "datetime.timedelta", "types.SimpleNamespace", "dataclasses.fields",
    "contextvars.ContextVar.get", "ctypes.CDLL", "ctypes.CDLL.*", "ctypes.c_int", "sys.getsizeof", "sys.getrefcount",
    "sys.gettrace", "sys._getframe", "inspect.stack", "inspect.getsource", "inspect.getfile", "inspect.currentframe",
    "importlib.import_module", "__import__", "threading.get_ident", "threading.current_thread",
    "threading.active_count", "threading.Lock.locked", "queue.Queue.empty", "queue.Queue.qsize",
    "torch.get_num_threads", "torch.get_num_interop_threads", "torch.get_float32_matmul_precision",
    "torch.get_default_device", "torch.get_deterministic_debug_mode", "torch.get_file_path", "torch.can_cast",
    "torch.result_type", "torch.typename", "torch.is_storage", "torch.is_warn_always_enabled",
    "torch.is_inference_mode_enabled", "torch.is_deterministic_algorithms_warn_only_enabled", "torch.__config__.show",
    "torch.hub.get_dir", "torch.utils.data.get_worker_info", "torch.overrides.get_overridable_functions",
    "torch.accelerator.device_count", "torch.cuda.device_count", "torch.cuda.memory_allocated",
    "torch.cuda.max_memory_allocated", "torch.cuda.memory_reserved", "torch.cuda.max_memory_reserved",
    "torch.cuda.is_bf16_supported", "torch.mps.device_count", "torch.backends.mps.is_available",
    "torch.backends.mkldnn.is_available", "torch.backends.mkl.is_available", "torch.backends.openmp.is_available",
    "torch.backends.cudnn.is_available", "torch.backends.cuda.is_built", "torch.backends.cuda.flash_sdp_enabled",
    "torch.backends.cuda.math_sdp_enabled", "torch.backends.cuda.mem_efficient_sdp_enabled",
    "functools.cached_property",
)  # fmt: skip
EFFECTS = (
    "open", "open.*", "io.open", "io.BytesIO", "io.BytesIO.*", "io.StringIO", "io.StringIO.*", "input",
    "time.sleep", "json.dump", "pickle.*", "torch.save", "torch.load", "numpy.save", "numpy.load", "os.makedirs",
    "os.mkdir", "os.remove", "os.rename", "os.system", "os.putenv", "os.environ", "os.environ.update", "subprocess.*",
    "shutil.*", "pathlib.Path.mkdir", "pathlib.Path.open", "pathlib.Path.unlink", "pathlib.Path.write_text",
    "tempfile.mkdtemp", "tempfile.mktemp", "tempfile.NamedTemporaryFile", "tempfile.TemporaryDirectory", "gc.*",
    "heapq.*", "atexit.register", "signal.signal", "sys.exit", "sys.setrecursionlimit", "torch.set_num_threads",
    "torch.set_num_interop_threads", "torch.set_flush_denormal", "torch.set_anomaly_enabled",
    "torch.autograd.set_detect_anomaly", "torch.cuda.set_device", "torch.hub.set_dir", "torch.ops.load_library",
    "torch.library.Library", "torch.utils.data.DataLoader", "warnings.simplefilter",
    "warnings.filterwarnings", "logging.basicConfig", "contextvars.ContextVar.set", "contextvars.ContextVar.reset",
    "torch.nn.Module.load_state_dict", "torch.nn.utils.vector_to_parameters",
)  # fmt: skip
LOCKS = (
    "threading.Lock", "threading.RLock", "threading.Event", "threading.Semaphore", "threading.Thread",
    "threading.local", "queue.Queue", "concurrent.futures.ThreadPoolExecutor", "threading.Lock.acquire",
    "threading.Lock.release", "threading.RLock.acquire", "threading.RLock.release", "threading.Condition.acquire",
    "threading.Semaphore.acquire", "threading.Event.set", "threading.Event.wait", "threading.Thread.start",
    "queue.Queue.put", "queue.Queue.get", "queue.SimpleQueue.put",
)  # fmt: skip
COPIES = ("copy.copy", "copy.deepcopy")
TEXTS = ("eval", "exec", "compile", "globals", "dir")
TOOLS = (
    "torch.jit.script", "torch.jit.trace", "torch.jit.freeze", "torch.fx.symbolic_trace", "torch.export.export",
    "torch.compiler.reset", "torch._dynamo.reset", "torch.compiler.cudagraph_mark_step_begin",
    "torch.nn.utils.stateless.functional_call",
)  # fmt: skip
SCRIPTED = ("torch.jit.script.__call__", "torch.jit.trace.__call__", "torch.jit.load.__call__")
RECURRENT = ("torch.nn.LSTM.__call__", "torch.nn.GRU.__call__", "torch.nn.RNN.__call__")
LAYOUTS = (
    "torch.sparse_coo_tensor", "torch.sparse_csr_tensor", "torch.sparse_csc_tensor", "torch.sparse_bsr_tensor",
    "torch.sparse_compressed_tensor", "torch.sparse.mm", "torch.sparse.addmm", "torch.sparse.sum",
    "torch.sparse.softmax", "torch.sparse.log_softmax", "torch.nested.nested_tensor", "torch.nested.as_nested_tensor",
    "torch.Tensor.to_sparse", "torch.Tensor.to_sparse_coo", "torch.Tensor.to_sparse_csr", "torch.Tensor.to_sparse_csc",
    "torch.Tensor.to_sparse_bsr", "torch.Tensor.to_mkldnn", "torch.Tensor.sparse_mask", "torch.Tensor.coalesce",
)  # fmt: skip
STORAGES = (
    "torch.Tensor.storage", "torch.Tensor.storage_offset", "torch.Tensor.data_ptr", "torch.Tensor.is_pinned",
    "torch.Tensor.is_shared", "torch.Tensor.share_memory_", "torch.Tensor.is_set_to", "torch.Tensor.is_same_size",
    "torch.Tensor.is_inference", "torch.Tensor.dim_order", "torch.Tensor.map_", "torch.Tensor.apply_",
    "torch.Tensor.resize_", "torch.Tensor.resize_as_", "torch.Tensor.__dlpack__", "torch.from_dlpack",
    "torch.utils.dlpack.to_dlpack", "torch.Tensor.as_subclass",
)  # fmt: skip
NAMED = ("torch.Tensor.names", "torch.Tensor.refine_names", "torch.Tensor.rename", "torch.Tensor.align_to")
# These change sizes and strides; only on a tensor that comes into the compiled code do they break.
RESHAPED = tuple(
    f"torch.Tensor.{name}" for name in ("t_", "unsqueeze_", "squeeze_", "transpose_", "swapaxes_", "swapdims_", "as_strided_", "set_")
)  # fmt: skip
BARS = ("tqdm.*",)
HOOKED = ("object.__getattribute__", "BaseException.__init__")
ADVICE = {
    TIMES: "take the time outside of the compiled code",
    DRAWS: "draw before the compiled code and pass the number in",
    SEEDS: "set or read the seed outside of the compiled code",
    GENERATED: "draw outside of the compiled code, or from the default generator",
    FILLED: "`torch.randint` is traced",
    QUESTIONS: "ask once before the code is compiled and keep the answer",
    EFFECTS: "do it outside of the compiled code",
    LOCKS: "keep threads, locks and queues outside of the compiled code",
    COPIES: "copy before the compiled code; `.clone()` of a tensor and `list(...)` are traced",
    TEXTS: "write the code out, or look the name up before the compiled code",
    TOOLS: "do it once, before the compiled code",
    SCRIPTED: "call the module itself, torch.compile takes the place of torch.jit",
    RECURRENT: "torch._dynamo.config.allow_rnn lets it be traced; the cells (`nn.LSTMCell`) are traced as they are",
    LAYOUTS: "keep sparse, strided nested and MKL-DNN tensors outside of the compiled code",
    STORAGES: "the graph knows no storage: ask or change it outside of the compiled code",
    NAMED: "named tensors are not there any more",
    RESHAPED: "it changes sizes of the caller's tensor; without the underscore it gives a view, which is traced",
    BARS: "iterate over the plain iterable, as under `torch.compiler.is_compiling()`",
    HOOKED: "Dynamo does not trace such a class: use a plain attribute, or an exception without its own `__init__`",
}
CALLS = tuple(name for names in ADVICE for name in names)
