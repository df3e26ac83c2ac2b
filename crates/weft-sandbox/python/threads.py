# Follows `files.py` in one text: threads of a program, which has one. What it starts is done at once, and is over when `start`
# or `submit` returns; what waits for something that comes later waits in vain.
import concurrent.futures
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


def install_threads():
    threading.Thread.start, threading.Thread.join = started_at_once, joined
    threading.Thread.is_alive = lambda thread: getattr(thread, "is_running", thread is threading.main_thread())
    module = types.ModuleType("concurrent.futures.thread")
    module.ThreadPoolExecutor = concurrent.futures.ThreadPoolExecutor = DoneAtOnce
    module.BrokenThreadPool = type("BrokenThreadPool", (concurrent.futures.BrokenExecutor,), {})
    sys.modules[module.__name__] = concurrent.futures.thread = module


