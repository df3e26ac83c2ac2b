//! What the interpreter is given: its two functions, clocks, randomness, and an empty environment. Anything else that
//! it imports is missing, and ends a program that uses it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wasmtime::component::{Linker, LinkerInstance, Val};
use wasmtime::{Engine, ResourceLimiter, Result, StoreContextMut, Trap, bail, format_err};
use weft_core::seam::file_store::plain_name;
use weft_core::seam::sandbox::{FILES_BYTES_MAX, FILES_MAX, Limits, WrittenFile};

use crate::printed::{Printed, Stream};

/// The version of the WASI interfaces that the component imports.
const WASI: &str = "0.2.9";
/// Maximum number of random bytes returned at a time. The interpreter asks for 256.
const CHANCE_MAX: u64 = 64 << 10;
/// Maximum number of entries in the tables of an instance; the component has some thousands.
const TABLE_MAX: usize = 1 << 20;
/// Number of bytes in an entry of a table.
const ENTRY_BYTES: usize = 16;

/// The state of a run besides its memory.
#[derive(Debug)]
pub(crate) struct PythonHost {
    pub printed: Printed,
    /// Whether the program was refused memory.
    pub denied: bool,
    /// Whether it has exited by itself.
    pub exited: bool,
    /// The files that the program has written.
    pub files: Vec<WrittenFile>,
    /// Why one of them was not kept.
    pub unkept: Option<String>,
    file_bytes: usize,
    memory_left: usize,
    /// Whom the initial memory is charged to.
    first_memory: FirstMemory,
    began: Instant,
    end: Instant,
}

/// Whom the initial memory of a component is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstMemory {
    /// To the interpreter. What is added later is charged to the program.
    Interpreters,
    /// To the tool, like all memory it requests later.
    Tools,
}

impl PythonHost {
    /// Starts a run now.
    pub(crate) fn new(limits: Limits, first_memory: FirstMemory) -> Self {
        let began = Instant::now();
        Self {
            printed: Printed::new(limits.printed_bytes),
            denied: false,
            exited: false,
            files: Vec::new(),
            unkept: None,
            file_bytes: 0,
            memory_left: limits.memory_bytes,
            first_memory,
            began,
            end: began.checked_add(limits.time).unwrap_or(began),
        }
    }

    /// Keeps a file, if there is space for it.
    fn keep(&mut self, name: String, bytes: &[u8]) -> bool {
        let together = self.file_bytes.saturating_add(bytes.len());
        self.unkept = if plain_name(&name) != name {
            Some(format!("the file name `{name}` is not allowed"))
        } else if self.files.len() >= FILES_MAX {
            Some(format!("it leaves more than {FILES_MAX} files; the file `{name}` is one too many"))
        } else if together > FILES_BYTES_MAX {
            let most = FILES_BYTES_MAX >> 20;
            Some(format!("its files have more than {most} MiB together; the file `{name}` is too large"))
        } else {
            None
        };
        let fits = self.unkept.is_none();
        if fits {
            self.file_bytes = together;
            self.files.push(WrittenFile { name, base64: STANDARD.encode(bytes) });
        }
        fits
    }

    /// Grants memory, if that much is left.
    fn grant(&mut self, bytes: usize) -> bool {
        let there_is = bytes <= self.memory_left;
        if there_is {
            self.memory_left -= bytes;
        } else {
            self.denied = true;
        }
        there_is
    }

    /// Waits, and ends the program when the wait exceeds its remaining time.
    fn sleep(&self, seconds: f64) -> Result<()> {
        let wished = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let left = self.end.saturating_duration_since(Instant::now());
        // A single-threaded program has nothing else to do, and its time limit ends every wait.
        std::thread::sleep(wished.min(left));
        if wished < left { Ok(()) } else { Err(Trap::Interrupt.into()) }
    }
}

impl ResourceLimiter for PythonHost {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let free = current == 0 && self.first_memory == FirstMemory::Interpreters;
        let more = if free { 0 } else { desired.saturating_sub(current) };
        Ok(self.grant(more) && maximum.is_none_or(|maximum| desired <= maximum))
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        let more = match self.first_memory {
            FirstMemory::Interpreters => 0,
            FirstMemory::Tools => desired.saturating_sub(current).saturating_mul(ENTRY_BYTES),
        };
        Ok(desired <= TABLE_MAX && self.grant(more))
    }
}

/// Returns a linker with what every component is given: clocks, randomness, and an empty environment.
///
/// # Errors
/// When a name is defined twice.
pub(crate) fn linker_of_tools(engine: &Engine) -> Result<Linker<PythonHost>> {
    let mut linker = Linker::new(engine);
    clocks(&mut linker)?;
    chance(&mut linker)?;
    nothing_else(&mut linker)?;
    Ok(linker)
}

/// Returns a linker that also has the functions of the Python interpreter.
///
/// # Errors
/// When a name is defined twice.
pub(crate) fn linker(engine: &Engine) -> Result<Linker<PythonHost>> {
    let mut linker = linker_of_tools(engine)?;
    let mut root = linker.root();
    root.func_wrap("show", |mut host: StoreContextMut<'_, PythonHost>, (error, text): (bool, String)| {
        let stream = if error { Stream::Error } else { Stream::Out };
        host.data_mut().printed.piece(stream, &text);
        Ok(())
    })?;
    root.func_wrap("keep", |mut host: StoreContextMut<'_, PythonHost>, (name, bytes): (String, Vec<u8>)| {
        Ok((host.data_mut().keep(name, &bytes),))
    })?;
    root.func_wrap("sleep", |host: StoreContextMut<'_, PythonHost>, (seconds,): (f64,)| {
        host.data().sleep(seconds)
    })?;
    Ok(linker)
}

fn interface<'a>(linker: &'a mut Linker<PythonHost>, name: &str) -> Result<LinkerInstance<'a, PythonHost>> {
    linker.instance(&format!("wasi:{name}@{WASI}"))
}

fn clocks(linker: &mut Linker<PythonHost>) -> Result<()> {
    let mut wall = interface(linker, "clocks/wall-clock")?;
    let datetime = |time: Duration| {
        let record = [
            ("seconds".to_owned(), Val::U64(time.as_secs())),
            ("nanoseconds".to_owned(), Val::U32(time.subsec_nanos())),
        ];
        Val::Record(record.into())
    };
    wall.func_new("now", move |_, _, _, results| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        give(results, datetime(now))
    })?;
    wall.func_new("resolution", move |_, _, _, results| give(results, datetime(Duration::from_nanos(1))))?;
    let mut monotonic = interface(linker, "clocks/monotonic-clock")?;
    monotonic.func_wrap("now", |host: StoreContextMut<'_, PythonHost>, (): ()| {
        Ok((u64::try_from(host.data().began.elapsed().as_nanos()).unwrap_or(u64::MAX),))
    })?;
    monotonic.func_wrap("resolution", |_: StoreContextMut<'_, PythonHost>, (): ()| Ok((1_u64,)))
}

fn chance(linker: &mut Linker<PythonHost>) -> Result<()> {
    let mut random = interface(linker, "random/random")?;
    random.func_wrap("get-random-bytes", |_: StoreContextMut<'_, PythonHost>, (count,): (u64,)| {
        if count > CHANCE_MAX {
            bail!("{count} random bytes are too many for one call");
        }
        let mut bytes = vec![0; usize::try_from(count).unwrap_or_default()];
        getrandom::fill(&mut bytes).map_err(|cause| format_err!("no random bytes: {cause}"))?;
        Ok((bytes,))
    })?;
    random.func_wrap("get-random-u64", |_: StoreContextMut<'_, PythonHost>, (): ()| {
        let number = getrandom::u64().map_err(|cause| format_err!("no random number: {cause}"))?;
        Ok((number,))
    })
}

/// Adds no folders, no variables and no arguments; and a program that asks its process to exit is ended.
fn nothing_else(linker: &mut Linker<PythonHost>) -> Result<()> {
    let none = |linker: &mut Linker<PythonHost>, name: &str, function: &str, value: Val| -> Result<()> {
        interface(linker, name)?.func_new(function, move |_, _, _, results| give(results, value.clone()))
    };
    none(linker, "filesystem/preopens", "get-directories", Val::List(Vec::new()))?;
    none(linker, "cli/environment", "get-environment", Val::List(Vec::new()))?;
    none(linker, "cli/environment", "get-arguments", Val::List(Vec::new()))?;
    none(linker, "cli/environment", "initial-cwd", Val::Option(None))?;
    let mut exit = interface(linker, "cli/exit")?;
    exit.func_new("exit", |mut host: StoreContextMut<'_, PythonHost>, _, _, _| {
        host.data_mut().exited = true;
        bail!("the program has exited")
    })
}

fn give(results: &mut [Val], value: Val) -> Result<()> {
    if let Some(result) = results.first_mut() {
        *result = value;
    }
    Ok(())
}
