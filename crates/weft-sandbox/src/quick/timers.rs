//! Timers of a program: they run one after the other when nothing else is left to do.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use rquickjs::module::{Declared, WriteOptions};
use rquickjs::{CatchResultExt as _, Context, Ctx, Function, Module, Object, Runtime};
use weft_core::seam::sandbox::Failure;

use super::told::failure;
use super::{FILE, ProgramWatch, web};

/// What a program finds besides its language.
const GLOBALS: &str = concat!("export default ", include_str!("globals.js"));
/// The same, compiled once per process: parsing it takes longer than most programs run. `None` if it cannot be
/// compiled.
static COMPILED: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| compiled().ok());
/// How long a wait continues before it checks whether it is still wanted.
const STEP: Duration = Duration::from_millis(20);

/// The timers of a program.
pub(super) struct Timers<'js> {
    wait: Function<'js>,
    fire: Function<'js>,
}

/// Functions that are written in JavaScript and called from here.
pub(super) struct Globals<'js> {
    pub timers: Timers<'js>,
    /// Returns a promise of all values if `main` returns an asynchronous sequence of them, and anything else unchanged.
    pub gathered: Function<'js>,
    /// Formats the result of `main` as JSON.
    pub json: Function<'js>,
    /// Returns an object with the result of `main` as its `value`, if the program has called it.
    pub called: Function<'js>,
}

impl<'js> Globals<'js> {
    /// Installs what a program finds besides its language. `console` is installed already.
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
    // SAFETY: This process has compiled it with this interpreter, and it stays in memory unchanged until the process
    // exits.
    unsafe {
        Module::load(ctx.clone(), compiled)
    }
}

impl<'js> Timers<'js> {
    /// Waits for the next timer and runs it; returns false when there is none.
    pub(super) fn next(&self, ctx: &Ctx<'js>, watch: &ProgramWatch) -> Result<bool, Failure> {
        let fails = |thrown| failure(ctx, thrown, FILE, watch);
        let wait: f64 = self.wait.call(()).catch(ctx).map_err(fails)?;
        if wait < 0.0 {
            return Ok(false);
        }
        // A program may want to wait for longer than can be represented.
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
