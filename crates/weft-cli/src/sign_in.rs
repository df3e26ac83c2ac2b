//! `weft mcp login` and `weft mcp logout`: authorizing this program at an MCP server.

use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, Uri, header};
use axum::response::IntoResponse as _;
use axum::routing::get;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weft_app::ToolServers;
use weft_app::tool_servers::{SignInCallback, SignInRequest};
use weft_core::{Error, ErrorKind};

use crate::args::{McpLoginArgs, McpLogoutArgs};
use crate::failure::{Exit, Failure, Outcome};
use crate::screen::{Data, Notes, pipes};
use crate::signals::stopped;
use crate::words::quoted;

/// Time limit for a person; the stored sign-in expires at the same time.
const TIME_LIMIT: Duration = Duration::from_mins(10);

/// The page that the browser shows at the end.
const DONE: &str =
    "<!doctype html><title>Weft</title><p>Weft continues in the terminal. This page can be closed.</p>";

/// Signs in at a server: prints the URL of a page for a browser, and waits for the redirect to this machine.
///
/// # Errors
/// When the server has no sign-in, is unavailable, or the person does not authorize it in time.
pub(crate) async fn login(args: &McpLoginArgs, opened: &ToolServers) -> Outcome {
    let listener = listening(args, opened).await?;
    // Port 0 stands for any free one.
    let port = listener.local_addr().map_err(|cause| cannot_listen(args.port, &cause))?.port();
    // An address, because the resolution of `localhost` may be misconfigured (RFC 8252, 8.3).
    let redirect_uri = format!("http://127.0.0.1:{port}/callback");
    let request = SignInRequest { redirect_uri, scope: args.scope.clone() };
    let page = opened.servers.begin_sign_in(&args.server, &request).await?;
    Notes::line("Open this page in a browser and authorize access for agents:");
    let mut data = Data::stdout();
    data.line(&page.url)?;
    data.flush()?;
    Notes::line(
        "If the browser is on another machine, its last page will not load: paste the address of that page here.",
    );
    let callback = tokio::select! {
        came = arrived(listener, &page.state) => came?,
        pasted = pasted() => pasted?,
        () = tokio::time::sleep(TIME_LIMIT) => {
            let message = format!("nobody has signed in within {} minutes", TIME_LIMIT.as_secs() / 60);
            return Err(Error::new(ErrorKind::Timeout, message).into());
        }
        () = stopped() => {
            Notes::line("Stopped before the sign-in was finished.");
            return Ok(Exit::Failed);
        }
    };
    opened.servers.finish_sign_in(&args.server, &callback).await?;
    Notes::line(format!("Signed in at {}.", quoted(&args.server)));
    Ok(Exit::Done)
}

/// Listens for the redirect: on the same port as before if any is allowed, because this program would have to be
/// registered again for a different one.
async fn listening(args: &McpLoginArgs, opened: &ToolServers) -> Outcome<TcpListener> {
    let before = opened.servers.sign_in_port(&args.server).await?;
    if let (0, Some(port)) = (args.port, before)
        && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await
    {
        return Ok(listener);
    }
    // If another program has taken that port, registering again is better than not signing in.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    listener.map_err(|cause| cannot_listen(args.port, &cause))
}

fn cannot_listen(port: u16, cause: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot listen on 127.0.0.1:{port} for the browser: {cause}"))
        .help("choose another --port, or omit it for any free port")
}

/// Removes the authorization for a server.
///
/// # Errors
/// When there is no such server, or it has no sign-in.
pub(crate) async fn logout(args: &McpLogoutArgs, opened: &ToolServers) -> Outcome {
    let was = opened.servers.sign_out(&args.server).await?;
    let server = quoted(&args.server);
    Notes::line(if was {
        format!("Signed out of {server}. Credentials already issued may stay valid there until they expire.")
    } else {
        format!("Nobody was signed in at {server}.")
    });
    Ok(Exit::Done)
}

/// Waits for the redirect of this sign-in in a local browser.
async fn arrived(listener: TcpListener, state: &str) -> Outcome<SignInCallback> {
    let (came, over) = (Arc::new(OnceLock::new()), CancellationToken::new());
    let handler = {
        let (came, over, state) = (Arc::clone(&came), over.clone(), format!("state={state}"));
        async move |uri: Uri| {
            // Any page can make the browser send requests to this address, and browsers request icons by themselves.
            let is_ours = uri.query().is_some_and(|query| query.split('&').any(|pair| pair == state));
            let callback = SignInCallback::of_url(&format!("http://127.0.0.1{uri}"));
            if !is_ours || callback.as_ref().is_err_and(|error| error.kind == ErrorKind::Invalid) {
                return StatusCode::BAD_REQUEST.into_response();
            }
            // Only the first response counts: a browser may send a request again.
            drop(came.set(callback));
            over.cancel();
            ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], DONE).into_response()
        }
    };
    let router = Router::new().route("/callback", get(handler));
    // Ends once the browser has its response.
    let served = axum::serve(listener, router).with_graceful_shutdown(over.cancelled_owned()).await;
    served.map_err(|cause| Failure::failed(format!("cannot wait for the browser: {cause}")))?;
    match came.get() {
        Some(Ok(callback)) => Ok(callback.clone()),
        // The cell only lends the error, and errors cannot be cloned.
        Some(Err(error)) => Err(Error::new(error.kind, error.message.clone()).into()),
        None => Err(Failure::from(Error::internal("the browser sent no sign-in response"))),
    }
}

/// Waits for a pasted URL; never returns if there is none.
async fn pasted() -> Outcome<SignInCallback> {
    let (input, _) = pipes()?;
    let mut lines = BufReader::new(input).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if line.trim().is_empty() {
            continue;
        }
        match SignInCallback::of_url(&line) {
            // A part of the address may have been copied, so it can be pasted again.
            Err(error) if error.kind == ErrorKind::Invalid => Notes::line(error.full()),
            told => return Ok(told?),
        }
    }
    std::future::pending().await
}
