//! What ends the program from outside: Ctrl-C, and what `kill` and service managers send.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, from the moment on at which this is made; where there is no such thing it never comes.
pub(crate) struct Termination {
    #[cfg(unix)]
    signal: Option<Signal>,
}

impl Termination {
    /// Listens. From now on the signal does not end the process by itself any more.
    pub(crate) fn listen() -> Self {
        Self {
            #[cfg(unix)]
            signal: signal(SignalKind::terminate()).ok(),
        }
    }

    /// Waits for it; at once when it has come since the last time.
    pub(crate) async fn received(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// SIGINT or SIGTERM.
pub(crate) async fn stopped() {
    let mut termination = Termination::listen();
    tokio::select! {
        () = termination.received() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
