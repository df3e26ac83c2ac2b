//! Tries what a worker must not be able to do, and tells what came of each attempt: `0`, or the number of the
//! system's refusal. Only in the folder and against the process that the test names.
//!
//! ```text
//! free FOLDER PID ADDRESS       tries as an ordinary process
//! confined FOLDER PID ADDRESS   tries as a worker
//! answers                       answers a line with itself and the process that it was forked from; `break` and
//!                               `hang` with what they say
//! threaded                      becomes itself as a program that may have threads, with `threads`
//! threads                       tells whether it can start a thread, and a process
//! victim                        holds eight bytes, prints their address, and at the end of its input the bytes
//! ```

#![expect(unsafe_code, reason = "what libraries would not do has to be tried by calling the system itself")]
#![allow(missing_docs, reason = "a program for tests")]

#[cfg(target_os = "linux")]
mod acts;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use std::io::Write as _;
    use std::process::ExitCode;

    let arguments: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [_, "victim"] => {
            acts::be_a_victim();
            ExitCode::SUCCESS
        }
        [_, "threaded"] => {
            let Ok(own) = std::env::current_exe() else { return ExitCode::FAILURE };
            let mut command = std::process::Command::new(&own);
            command.arg("threads").env_clear();
            let libraries = ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"];
            let mut read: Vec<std::path::PathBuf> = libraries.map(Into::into).into();
            read.push(own);
            weft_child::become_threaded_program(&read, &acts::BOUNDS, 2, &mut command)
        }
        [_, "threads"] => {
            let came = |done: std::io::Result<()>| match done {
                Ok(()) => 0,
                Err(cause) => cause.raw_os_error().unwrap_or(-1),
            };
            let thread = std::thread::Builder::new().spawn(|| ()).map(|thread| drop(thread.join()));
            let process = std::env::current_exe()
                .and_then(|own| std::process::Command::new(own).arg("nothing").status())
                .map(drop);
            let told = writeln!(std::io::stdout(), "thread {}\nprocess {}", came(thread), came(process));
            if told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        [_, "answers"] => forked_or_alone(|| {
            let mut line = String::new();
            drop(std::io::stdin().read_line(&mut line));
            let line = line.trim().to_owned();
            let parent = std::os::unix::process::parent_id();
            weft_child::confined(acts::BOUNDS, move || match line.as_str() {
                "break" => std::process::abort(),
                "hang" => loop {
                    std::thread::sleep(std::time::Duration::from_secs(1));
                },
                _ => write!(std::io::stdout(), "{line} {parent}"),
            })
        }),
        [_, how, folder, pid, address] => {
            let (pid, address) = (pid.parse().unwrap_or(0), address.parse().unwrap_or(0));
            let target = acts::Target::new(folder, pid, address);
            let told = move || {
                let came: Vec<String> =
                    acts::all(&target).iter().map(|(name, came)| format!("{name} {came}")).collect();
                writeln!(std::io::stdout(), "{}", came.join("\n"))
            };
            if *how == "free" {
                return if told().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            }
            forked_or_alone(move || weft_child::confined(acts::BOUNDS, told))
        }
        _ => ExitCode::FAILURE,
    }
}

/// Does the work in every fork when this is a fork server, and otherwise at once.
#[cfg(target_os = "linux")]
fn forked_or_alone(work: impl FnOnce() -> std::process::ExitCode) -> std::process::ExitCode {
    if weft_child::is_fork_server() { weft_child::serve(|_| (), |()| work()) } else { work() }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
