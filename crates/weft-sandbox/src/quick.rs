//! Runs one program in QuickJS: a fresh runtime, the program, its result, and nothing retained.

mod console;
mod lines;
mod memory;
mod own_calls;
mod timers;
mod told;
mod web;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{CatchResultExt as _, Context, Ctx, Function, Module, Promise, Runtime, Value};
use weft_core::Json;
use weft_core::seam::sandbox::{Failure, Program, Ran};

use crate::printed::Printed;
use crate::result::read;
use memory::{CountedMemory, Peak};
pub(crate) use own_calls::as_parsed;
use timers::{Globals, Timers};
pub(crate) use told::remedy;
use told::{failure, text_of, with_remedy};

/// Number of bytes of the stack of the thread that runs a program.
pub(crate) const THREAD_STACK: usize = 8 << 20;
/// Number of these bytes that the program may use. The rest is for what the interpreter does not count.
const PROGRAM_STACK: usize = 1 << 20;
/// The file name of a program in error locations.
const FILE: &str = "program.js";
/// A time limit that never applies.
// Thirty years, which can still be added to the clock.
const EVER: Duration = Duration::from_secs(1 << 30);

/// What scripts for Node.js expect.
const PRELUDE: &str = "globalThis.module = {exports: {}}; globalThis.exports = module.exports;";
/// Finds the function `main`, in whatever way the program provides it.
const MAIN: &str = "(() => {
    if (typeof main === 'function') return main;
    const exported = typeof module === 'object' && module !== null ? module.exports : undefined;
    return typeof exported === 'function' ? exported : exported?.main ?? exported?.default;
})()";

/// Runs `work` on a thread with a sufficient stack.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn on_its_thread<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("program".to_owned()).stack_size(THREAD_STACK);
        let joined = thread.spawn_scoped(scope, work)?.join();
        joined.map_err(|_| std::io::Error::other("the thread of a program stopped unexpectedly"))
    })
}

/// Runs a program on this thread, which has [`THREAD_STACK`] bytes of stack, until it ends, reaches its limits, or
/// takes its next step after `stop` is set.
pub(crate) fn execute(program: &Program, stop: &Arc<AtomicBool>) -> Ran {
    let (ran, interpreter) = execute_once(program, stop);
    drop(interpreter);
    ran
}

/// Runs a program in a process that exits with it, which need not free the program's memory.
pub(crate) fn execute_last(program: &Program) -> Ran {
    let (ran, interpreter) = execute_once(program, &Arc::default());
    std::mem::forget(interpreter);
    ran
}

/// The interpreter of a program; the context is dropped first.
struct Interpreter {
    _context: Context,
    _runtime: Runtime,
}

fn execute_once(program: &Program, stop: &Arc<AtomicBool>) -> (Ran, Option<Interpreter>) {
    let printed = Rc::new(RefCell::new(Printed::new(program.limits.printed_bytes)));
    let (result, interpreter) = result(program, stop, &printed);
    let printed = printed.take();
    let ran = Ran {
        result,
        stdout: printed.stdout,
        stderr: printed.stderr,
        truncated: printed.truncated,
        files: Vec::new(),
    };
    (ran, interpreter)
}

fn result(
    program: &Program,
    stop: &Arc<AtomicBool>,
    printed: &Rc<RefCell<Printed>>,
) -> (Result<Json, Failure>, Option<Interpreter>) {
    let peak = Peak::default();
    let Ok(runtime) = Runtime::new_with_alloc(CountedMemory::new(&peak)) else {
        return (Err(Failure::Memory), None);
    };
    runtime.set_max_stack_size(PROGRAM_STACK);
    let Ok(context) = Context::full(&runtime) else { return (Err(Failure::Memory), None) };
    runtime.set_memory_limit(program.limits.memory_bytes);
    let watch = ProgramWatch::start(program.limits.time, stop).over(peak, program.limits.memory_bytes);
    let handler = watch.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || handler.rings())));
    let told = context.with(|ctx| run(&ctx, program, printed, &watch));
    // Once the time is up, nothing that the program reports counts.
    let result = if watch.rung.get() { Err(Failure::Time) } else { told };
    (result, Some(Interpreter { _context: context, _runtime: runtime }))
}

fn run(
    ctx: &Ctx<'_>,
    program: &Program,
    printed: &Rc<RefCell<Printed>>,
    watch: &ProgramWatch,
) -> Result<Json, Failure> {
    let fails = |thrown| failure(ctx, thrown, FILE, watch);
    console::install(ctx, printed).catch(ctx).map_err(fails)?;
    let Globals { timers, gathered, json, called } = Globals::install(ctx).catch(ctx).map_err(fails)?;
    let arguments = serde_json::to_string(&program.arguments).unwrap_or_default();
    // Passed as data: within the program's text they could be parsed as code.
    let arguments = ctx.json_parse(arguments).catch(ctx).map_err(fails)?;
    let job = PendingWork { ctx, watch, timers };
    let Some(main) = main_of(&job, program)? else {
        // It may already have printed everything, or do so when what it waits for has arrived.
        while job.goes_on()? {}
        let has_printed = !printed.borrow().is_empty();
        return if has_printed { Ok(Json::Null) } else { Err(no_main()) };
    };
    let called: Value<'_> = called.call(()).catch(ctx).map_err(fails)?;
    let called = called.as_object().filter(|_| program.arguments.is_empty());
    let returned: Value<'_> = match called {
        Some(called) => called.get::<_, Value<'_>>("value").catch(ctx).map_err(fails)?,
        None => main.call((arguments,)).catch(ctx).map_err(fails)?,
    };
    let returned: Value<'_> = gathered.call((returned,)).catch(ctx).map_err(fails)?;
    let returned = match returned.as_promise() {
        Some(promise) => job.settled(promise)?,
        None => returned,
    };
    if called.is_some() {
        job.follow()?;
    }
    let json: Value<'_> = json.call((returned,)).catch(ctx).map_err(fails)?;
    let Some(json) = json.as_string() else { return Ok(Json::Null) };
    let json = text_of(ctx, json).ok_or(Failure::Memory)?;
    if json.len() > program.limits.output_bytes {
        return Err(Failure::Output);
    }
    read(&json)
}

/// Evaluates a program and finds its `main`, if it has one.
fn main_of<'js>(job: &PendingWork<'_, 'js>, program: &Program) -> Result<Option<Function<'js>>, Failure> {
    let PendingWork { ctx, watch, .. } = *job;
    let fails = |thrown| failure(ctx, thrown, FILE, watch);
    let source = own_calls::recorded(&program.source, &program.arguments);
    let global = own_calls::VARIABLE;
    let main: Value<'_> = if is_module(&program.source) {
        if source.is_variable {
            script(ctx, "prelude.js", global).catch(ctx).map_err(fails)?;
        }
        let module = Module::declare(ctx.clone(), FILE, &*source.text).catch(ctx).map_err(fails);
        let module = module.map_err(|failure| with_remedy(failure, &program.source))?;
        let (module, evaluated) = module.eval().catch(ctx).map_err(fails)?;
        job.settled(&evaluated)?;
        let named = if source.is_variable {
            ctx.globals().get::<_, Value<'_>>("main")
        } else {
            module.get::<_, Value<'_>>("main")
        };
        let named = named.catch(ctx).ok().filter(Value::is_function);
        match named {
            Some(main) => main,
            None => match module.get("default").catch(ctx) {
                Ok(main) => main,
                Err(_) => return Ok(None),
            },
        }
    } else {
        script(ctx, "prelude.js", PRELUDE).catch(ctx).map_err(fails)?;
        if source.is_variable {
            script(ctx, "prelude.js", global).catch(ctx).map_err(fails)?;
        }
        let evaluated = script(ctx, FILE, &source.text).catch(ctx).map_err(fails);
        evaluated.map_err(|failure| with_remedy(failure, &program.source))?;
        script(ctx, "main.js", MAIN).catch(ctx).map_err(fails)?
    };
    Ok(main.into_function())
}

fn no_main() -> Failure {
    let message = "it defines no function `main`, and prints nothing".to_owned();
    Failure::Program { message, line: None }
}

fn script<'js>(ctx: &Ctx<'js>, file: &str, source: &str) -> rquickjs::Result<Value<'js>> {
    let mut options = EvalOptions::default();
    // Existing programs were written for sloppy mode.
    (options.strict, options.filename) = (false, Some(file.to_owned()));
    ctx.eval_with_options(source, options)
}

/// Whether a program exports its `main` as a module does.
pub(crate) fn is_module(source: &str) -> bool {
    const EXPORTED: [&str; 8] = ["default", "const", "let", "var", "function", "async", "class", "{"];
    let exported = |line: &str| {
        line.strip_prefix("export ").is_some_and(|rest| EXPORTED.iter().any(|word| rest.starts_with(word)))
    };
    source.lines().any(exported)
}

/// The pending work of a program.
struct PendingWork<'a, 'js> {
    ctx: &'a Ctx<'js>,
    watch: &'a ProgramWatch,
    timers: Timers<'js>,
}

impl<'js> PendingWork<'_, 'js> {
    /// Runs one pending item; returns false when there is none.
    fn goes_on(&self) -> Result<bool, Failure> {
        // A chain of promises continues after one of its links was interrupted.
        if self.watch.rings() {
            return Err(Failure::Time);
        }
        Ok(self.ctx.execute_pending_job() || self.timers.next(self.ctx, self.watch)?)
    }

    /// Runs what the program does with settled promises, such as printing their values.
    fn follow(&self) -> Result<(), Failure> {
        while !self.watch.rings() {
            if !self.ctx.execute_pending_job() {
                return Ok(());
            }
        }
        Err(Failure::Time)
    }

    /// Runs what is pending until a promise is settled.
    fn settled(&self, promise: &Promise<'js>) -> Result<Value<'js>, Failure> {
        while promise.state() == PromiseState::Pending {
            if !self.goes_on()? {
                let message = "`main` waits for something that never happens".to_owned();
                return Err(Failure::Program { message, line: None });
            }
        }
        let value = promise.result::<Value<'_>>().unwrap_or_else(|| Ok(Value::new_null(self.ctx.clone())));
        value.catch(self.ctx).map_err(|thrown| failure(self.ctx, thrown, FILE, self.watch))
    }
}

/// Decides when a program has to stop, and whether its memory may have run out.
#[derive(Clone)]
struct ProgramWatch {
    end: Instant,
    stop: Arc<AtomicBool>,
    rung: Rc<Cell<bool>>,
    peak: Peak,
    memory_bytes: usize,
}

impl ProgramWatch {
    fn start(time: Duration, stop: &Arc<AtomicBool>) -> Self {
        let now = Instant::now();
        let end = now.checked_add(time.min(EVER)).unwrap_or(now);
        Self { end, stop: Arc::clone(stop), rung: Rc::default(), peak: Peak::default(), memory_bytes: 0 }
    }

    fn over(self, peak: Peak, memory_bytes: usize) -> Self {
        Self { peak, memory_bytes, ..self }
    }

    fn memory_ran_out(&self) -> bool {
        self.peak.was_near(self.memory_bytes)
    }

    fn rings(&self) -> bool {
        // Relaxed: only the flag itself is shared, and one step more does no harm.
        let over = self.stop.load(Ordering::Relaxed) || Instant::now() >= self.end;
        if over {
            self.rung.set(true);
        }
        over
    }
}
