//! Signals that end the program: Ctrl-C, and those of `kill` and service managers.

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGTERM from its creation on; on systems without it, it is never received.
pub(crate) struct Termination {
    #[cfg(unix)]
    signal: Option<Signal>,
}

impl Termination {
    /// Starts listening. From now on the signal no longer ends the process by itself.
    pub(crate) fn listen() -> Self {
        Self {
            #[cfg(unix)]
            signal: signal(SignalKind::terminate()).ok(),
        }
    }

    /// Waits for the signal; returns immediately if it was received since the last call.
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

/// Returns a future that waits for SIGINT or SIGTERM. From the call on, SIGTERM no longer ends the process by itself.
pub(crate) fn stopped() -> impl Future<Output = ()> {
    let mut termination = Termination::listen();
    async move {
        tokio::select! {
            () = termination.received() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    }
}
