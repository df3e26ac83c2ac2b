//! Timers of a program: they run one after the other when nothing else is left to do.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rquickjs::module::{Declared, WriteOptions};
use rquickjs::{CatchResultExt as _, Context, Ctx, Function, Module, Object, Runtime};
use weft_core::seam::sandbox::Failure;

use super::told::failure;
use super::{FILE, ProgramWatch, web};

/// What a program finds beside its language.
const GLOBALS: &str = concat!("export default ", include_str!("globals.js"));
/// The same, compiled once in a process: reading it takes longer than most programs run. Nothing where it cannot be compiled.
static COMPILED: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| compiled().ok());
/// How long a wait goes on without a look at whether it is still wanted.
const STEP: Duration = Duration::from_millis(20);

/// The timers of a program.
pub(super) struct Timers<'js> {
    wait: Function<'js>,
    fire: Function<'js>,
}

/// What is written in a program's own language and called from here.
pub(super) struct Globals<'js> {
    pub timers: Timers<'js>,
    /// Gives a promise of all that comes where `main` gives one thing after the other and later, and anything else as it is.
    pub gathered: Function<'js>,
    /// Writes what `main` gave as JSON.
    pub json: Function<'js>,
    /// Gives an object with what `main` gave as its `value`, when the program has called it.
    pub called: Function<'js>,
}

impl<'js> Globals<'js> {
    /// Gives a program what it finds beside its language. `console` is there already.
    pub(super) fn install(ctx: &Ctx<'js>) -> rquickjs::Result<Self> {
        let (module, _) = globals(ctx)?.eval()?;
        let globals: Function<'js> = module.get("default")?;
        let functions: Object<'js> = globals.call((Function::new(ctx.clone(), web::load)?,))?;
        let timers = Timers { wait: functions.get("wait")?, fire: functions.get("fire")? };
        Ok(Self {
            timers,
            gathered: functions.get("gathered")?,
            json: functions.get("json")?,
            called: functions.get("called")?,
        })
    }
}

fn declared<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Module<'js, Declared>> {
    Module::declare(ctx.clone(), "globals.js", GLOBALS)
}

fn compiled() -> rquickjs::Result<Vec<u8>> {
    let context = Context::full(&Runtime::new()?)?;
    context.with(|ctx| declared(&ctx)?.write(WriteOptions::default()))
}

fn globals<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Module<'js, Declared>> {
    let Some(compiled) = &*COMPILED else { return declared(ctx) };
    #[expect(unsafe_code, reason = "the interpreter does not check code that was compiled before")]
    // SAFETY: This process has compiled it with this interpreter, and it stays in memory unchanged to the end.
    unsafe {
        Module::load(ctx.clone(), compiled)
    }
}

impl<'js> Timers<'js> {
    /// Waits for the next timer and lets it run; false when there is none.
    pub(super) fn next(&self, ctx: &Ctx<'js>, watch: &ProgramWatch) -> Result<bool, Failure> {
        let fails = |thrown| failure(ctx, thrown, FILE, watch);
        let wait: f64 = self.wait.call(()).catch(ctx).map_err(fails)?;
        if wait < 0.0 {
            return Ok(false);
        }
        // A program may want to wait for longer than can be counted.
        let wait = Duration::try_from_secs_f64(wait / 1_000.0).unwrap_or(Duration::MAX);
        let began = Instant::now();
        while began.elapsed() < wait {
            if watch.rings() {
                return Err(Failure::Time);
            }
            std::thread::sleep(STEP.min(wait.saturating_sub(began.elapsed())));
        }
        self.fire.call::<_, ()>(()).catch(ctx).map_err(fails)?;
        Ok(true)
    }
}
