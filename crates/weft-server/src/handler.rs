//! Handlers of one type.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request};
use axum::handler::Handler;
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter};

use crate::state::ServerState;

/// The future of an async function as a handler, which axum boxes in any case.
pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler without the type of its function.
///
/// The router wraps each handler in half a dozen services. With a type of its own for each of 350 handlers, the compiler
/// makes as many copies of them all, which was a third of the time that it took for this crate.
#[derive(Clone)]
pub(crate) struct BoxedHandler(Arc<dyn Fn(Request, ServerState) -> ResponseFuture + Send + Sync>);

impl BoxedHandler {
    pub(crate) fn new<H, T>(handler: H) -> Self
    where
        H: Handler<T, ServerState, Future = ResponseFuture>,
    {
        Self(Arc::new(move |request, state| handler.clone().call(request, state)))
    }

    /// A handler for bodies with a limit of their own.
    pub(crate) fn limited<H, T>(limit: DefaultBodyLimit, handler: H) -> Self
    where
        H: Handler<T, ServerState, Future = ResponseFuture>,
    {
        Self(Arc::new(move |mut request: Request, state| {
            limit.apply(&mut request);
            handler.clone().call(request, state)
        }))
    }
}

impl fmt::Debug for BoxedHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BoxedHandler")
    }
}

impl Handler<(), ServerState> for BoxedHandler {
    type Future = ResponseFuture;

    fn call(self, request: Request, state: ServerState) -> ResponseFuture {
        (self.0)(request, state)
    }
}

/// Routes a method to a handler, as the function of this name in axum does.
pub(crate) fn on<H, T>(method: MethodFilter, handler: H) -> MethodRouter<ServerState>
where
    H: Handler<T, ServerState, Future = ResponseFuture>,
{
    axum::routing::on(method, BoxedHandler::new(handler))
}
