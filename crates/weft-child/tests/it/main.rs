//! A worker from inside and from outside.

#[cfg(target_os = "linux")]
mod boundary;
