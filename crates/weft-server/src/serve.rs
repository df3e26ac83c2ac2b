//! Listening, serving and orderly shutdown.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use futures::future::maybe_done;
use tokio::net::TcpListener;
use tokio::time::Instant;
use weft_core::{Error, Result};

use crate::connection;
use crate::open_files;
use crate::router::router;
use crate::state::ServerState;
use weft_app::app::App;
use weft_app::config::{Config, RetentionConfig, ServerConfig, WorkerConfig, check_auth};
use weft_app::worker::{Worker, read_documents, remember};

/// Time after the end of the runs for streams to reach their clients.
const LAST_FRAMES: Duration = Duration::from_secs(5);
/// Time for requests whose connections were closed to remove what they have stored.
// The store is closed afterwards, and they need it.
const CLEAN_UP: Duration = Duration::from_secs(5);

/// Options of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Whether callers need a token, and the maximum number of connections.
    pub server: ServerConfig,
    /// How long runs may continue after the shutdown was requested; then they are handed over.
    pub grace: Duration,
    /// Whether and how the server processes the queue.
    pub worker: WorkerConfig,
    /// How long runs are kept.
    pub retention: RetentionConfig,
}

impl From<&Config> for ServeOptions {
    fn from(config: &Config) -> Self {
        Self {
            server: config.server,
            grace: Duration::from_secs(config.limits.shutdown_seconds),
            worker: config.worker,
            retention: config.retention,
        }
    }
}

/// Binds an address.
///
/// # Errors
/// `Invalid` with the reason why the address cannot be bound.
pub async fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|cause| {
        let in_use = cause.kind() == std::io::ErrorKind::AddrInUse;
        let error = Error::invalid(format!("cannot listen on {address}")).because(cause);
        if in_use {
            error.help("another program uses the port: stop it, or set another address with --listen")
        } else {
            error
        }
    })
}

/// Serves until `shutdown` completes. Then stops accepting connections, lets runs finish for a while, hands over the
/// rest to the next process, ends every stream and closes the store.
///
/// # Errors
/// `Invalid` without authentication on an address that others can reach; otherwise when the listener or the store
/// fails.
pub async fn serve(
    app: App,
    listener: TcpListener,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<()> {
    let failed = |cause: std::io::Error| Error::internal("the listener failed").because(cause);
    // By the address that is really bound: an embedding program may have chosen one that the settings do not name.
    check_auth(options.server.auth, listener.local_addr().map_err(failed)?)?;
    let state = ServerState::new(app.clone(), options.server.auth)?;
    let stopping = state.stopping.clone();
    // The limit of open files is raised first, because the number of connections depends on it.
    let connections = options.server.connections(open_files::raise());
    let mut serving = Box::pin(connection::serve(listener, router(state), connections, stopping.clone()));
    let worker = options.worker.enabled.then(|| Worker::new(app.clone(), options.worker));
    // The worker's future is large; boxing keeps it off the stack.
    let mut working = Box::pin(maybe_done(async {
        match &worker {
            Some(worker) => {
                let reading = read_documents(&app, options.worker, &stopping, options.grace);
                let remembering = remember(&app, &stopping, options.grace);
                futures::join!(worker.run(&stopping, options.grace), Box::pin(reading), remembering);
            }
            None => stopping.cancelled().await,
        }
    }));
    tokio::select! {
        () = &mut serving => {}
        () = app.keep_runs_going() => {}
        () = Box::pin(app.keep_tasks_timely()) => {}
        () = Box::pin(app.keep_people_told()) => {}
        () = &mut working => {}
        () = app.keep_what_counts(&options.retention) => {}
        () = shutdown => tracing::info!("stopping"),
    }
    // When any of these has ended, the others are stopped: a server runs as a whole or not at all.
    stopping.cancel();
    let runs_end = async {
        let from = Instant::now();
        // The queue's work is left to another worker before the rest is stopped.
        working.await;
        app.engine.shut_down(options.grace.saturating_sub(from.elapsed())).await;
    };
    // Connections are served while the runs end, so that clients of the runs get the last frames.
    let time = options.grace.saturating_add(LAST_FRAMES);
    let (served, ()) = futures::join!(tokio::time::timeout(time, &mut serving), runs_end);
    if served.is_err() {
        tracing::warn!("some connections did not end in time and are closed");
    }
    // Before the store is closed: an upload whose connection ends removes what it has stored so far.
    drop(serving);
    app.shut_down(CLEAN_UP).await
}
