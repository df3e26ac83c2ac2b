//! canvas JSON → plan → run → components → **the only way out** → the internet
//!
//! No other crate builds an HTTP client. Canvases go through [`Outbound`], which refuses addresses that are not
//! public; addresses that the operator configured go through [`operator_client`].

mod address;
mod allow_list;
mod connector;
mod guard;
mod mail;
mod operator;
mod outbound;
mod relay;
mod request;
mod route;
mod streaming;
mod tls;
mod tunnel;

pub use address::{AddressRefusal, refusal};
pub use allow_list::AllowList;
pub use connector::DirectConnector;
pub use guard::GuardProxy;
pub use mail::SmtpMailer;
pub use operator::{CONNECT_LIMIT, operator_client};
pub use outbound::{Outbound, Resolver, SystemResolver};
pub use relay::{AnswerEvents, AnswerLimits, AnswerRelay, ExchangeFailure, RelayedExchange};
pub use route::{Connector, OutboundRoute, Pinned};
pub use streaming::{NotSent, OperatorHttp, StreamRequest, StreamResponse, StreamingHttp};
pub use tunnel::Tunnel;
