# Follows `files.py` in one text: threads of a program, which has one. What it starts is done at once, and is over when `start`
# or `submit` returns; what waits for something that comes later waits in vain, and is told so: the interpreter would break
# down, or wait until the time is up.
import concurrent.futures
import queue
import threading


class DoneAtOnce(concurrent.futures.Executor):
    """An executor that does each call when it is handed over."""

    def __init__(self, max_workers=None, thread_name_prefix="", initializer=None, initargs=(), **_):
        self.ended = False
        if max_workers is not None and max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        if initializer is not None:
            initializer(*initargs)

    def submit(self, fn, /, *given, **named):
        if self.ended:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(*given, **named))
        except Exception as error:
            future.set_exception(error)
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        self.ended = True


def started_at_once(thread):
    """`start` of a thread."""
    if thread._started.is_set():
        raise RuntimeError("threads can only be started once")
    thread._started.set()
    thread.is_running = True
    try:
        thread.run()
    except SystemExit:
        pass
    except Exception as error:
        threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
    finally:
        thread.is_running = False


def joined(thread, timeout=None):
    """`join` of a thread, which is over as soon as it has been started."""
    if not thread._started.is_set():
        raise RuntimeError("cannot join thread before it is started")
    if thread is threading.current_thread():
        raise RuntimeError("cannot join current thread")


def stuck():
    """Raises what says that the function of the library that the program has called would wait for ever."""
    frame, name = sys._getframe(1), "it"
    while frame is not None and frame.f_code.co_filename not in (FILE, SCRIPT):
        name = f"{frame.f_code.co_name}()"
        frame = frame.f_back
    raise Stuck(f"`{name}` would wait for ever: a program has one thread, and what it gives to another is done at once, when that "
                "is started. Let come first what is waited for: fill a queue before its reader is started, for example")


class Lock:
    """A lock of the only thread."""

    def __init__(self):
        self.is_locked = False

    def acquire(self, blocking=True, timeout=-1):
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        if timeout < 0 and timeout != -1:
            raise ValueError("timeout value must be a non-negative number")
        if self.is_locked and blocking:
            if timeout == -1:
                stuck()
            time.sleep(timeout)
        if self.is_locked:
            return False
        self.is_locked = True
        return True

    __enter__ = acquire

    def release(self):
        if not self.is_locked:
            raise RuntimeError("release unlocked lock")
        self.is_locked = False

    def __exit__(self, *_):
        self.release()

    def locked(self):
        return self.is_locked

    def _at_fork_reinit(self):
        self.is_locked = False


def wait(condition, timeout=None):
    """`wait` of a condition, which nobody else can meet. Events, semaphores, barriers, queues and futures wait with it."""
    if not condition._is_owned():
        raise RuntimeError("cannot wait on un-acquired lock")
    if timeout is None:
        stuck()
    time.sleep(max(timeout, 0))
    return False


def install_threads():
    threading.Lock, threading.Condition.wait = Lock, wait
    # The other is not written in Python, and has a lock of its own.
    queue.SimpleQueue = queue._PySimpleQueue
    threading.Thread.start, threading.Thread.join = started_at_once, joined
    threading.Thread.is_alive = lambda thread: getattr(thread, "is_running", thread is threading.main_thread())
    module = types.ModuleType("concurrent.futures.thread")
    module.ThreadPoolExecutor = concurrent.futures.ThreadPoolExecutor = DoneAtOnce
    module.BrokenThreadPool = type("BrokenThreadPool", (concurrent.futures.BrokenExecutor,), {})
    sys.modules[module.__name__] = concurrent.futures.thread = module


