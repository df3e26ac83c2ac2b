//! Sends requests to databases: determines where they go, and how long they may take.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Semaphore;
use url::Url;
use weft_core::seam::Databases;
use weft_core::seam::databases::{DatabaseKind, SqlAnswer, SqlRequest};
use weft_core::{Error, ErrorKind, Result, TenantId, async_trait};
use weft_net::{Outbound, Pinned, Tunnel};

use crate::reply::{ReplyRoom, late, too_much};
use crate::statements::checked;
use crate::{mysql, postgres, sqlite};

/// Returns the folder with a tenant's files.
pub type SqliteFolder = Arc<dyn Fn(&TenantId) -> Option<PathBuf> + Send + Sync>;

/// Allowed bytes on the connection for each byte of an answer: rows carry names, lengths and types.
const OVERHEAD: u64 = 4;
/// Allowed bytes on a connection besides answers: greetings, certificates, settings.
const GREETING_MAX: u64 = 1 << 20;

/// The database that stores this program's own state. Canvases may never query it, whatever addresses are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDatabase {
    /// Host of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
}

impl OwnDatabase {
    /// The server in a store's URL; `None` for a file.
    pub fn of_url(url: &str) -> Option<Self> {
        let url = Url::parse(url).ok()?;
        let port = match url.scheme() {
            "postgres" | "postgresql" => 5432,
            "mysql" | "mariadb" => 3306,
            _ => return None,
        };
        let host = url.host_str().filter(|host| !host.is_empty()).unwrap_or("localhost");
        Some(Self { host: host.to_owned(), port: url.port().unwrap_or(port) })
    }
}

/// Clients for the supported databases.
#[derive(Clone)]
pub struct DatabaseClients {
    outbound: Arc<Outbound>,
    files: SqliteFolder,
    own: Option<OwnDatabase>,
    /// A query of a SQLite file computes in this process, and may do so beyond its deadline for a while.
    files_at_once: Arc<Semaphore>,
}

impl std::fmt::Debug for DatabaseClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseClients").field("own", &self.own).finish_non_exhaustive()
    }
}

impl DatabaseClients {
    /// Creates clients that reach servers through `outbound`, find files below `files`, and never query `own`.
    pub fn new(outbound: Arc<Outbound>, files: SqliteFolder, own: Option<OwnDatabase>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // One processor is left for everything else; two at least, so that one slow query does not make all others wait.
        let files_at_once = Arc::new(Semaphore::new(processors.saturating_sub(1).max(2)));
        Self { outbound, files, own, files_at_once }
    }

    async fn answers(&self, tenant: &TenantId, request: &SqlRequest) -> Result<Vec<SqlAnswer>> {
        let statements = checked(request.database.kind, &request.sql)?;
        let mut room = ReplyRoom::new(request.rows_max, request.bytes_max);
        let database = &request.database;
        if database.kind == DatabaseKind::Sqlite {
            let folder = (self.files)(tenant).ok_or_else(|| {
                Error::new(
                    ErrorKind::Denied,
                    "SQLite databases are not available, because no files are configured",
                )
                .help("set `files.root`")
            })?;
            let permit = Arc::clone(&self.files_at_once).acquire_owned().await;
            let permit =
                permit.map_err(|cause| Error::internal("the queries of files were closed").because(cause))?;
            let (path, time_limit) = (database.name.clone(), request.time_limit);
            let asked = sqlite::SqliteRequest { folder, path, time_limit, permit };
            return sqlite::ask(asked, statements, room).await;
        }
        // Looked up once: a name that resolves differently the next time must not lead to another server than the one
        // that was checked.
        let server = self.outbound.host(&database.host, database.port).await?;
        // By address and not only by name, because any name may resolve to this server.
        self.refuse_own(&server, database.port).await?;
        let bytes_max = request.bytes_max as u64 * OVERHEAD + GREETING_MAX;
        let file = match database.kind {
            DatabaseKind::Postgres => postgres::socket_name(database.port),
            _ => "mysql.sock".to_owned(),
        };
        let tunnel = self.outbound.tunnel(&server, &file, bytes_max).await?;
        let answered = match database.kind {
            DatabaseKind::Postgres => {
                postgres::ask(database, &tunnel, statements, &mut room, request.time_limit).await
            }
            _ => mysql::ask(database, &tunnel, statements, &mut room, request.time_limit).await,
        };
        answered.map_err(|error| told(error, &tunnel, request))
    }

    async fn refuse_own(&self, asked: &Pinned, port: u16) -> Result<()> {
        // Another port of the same machine is another server.
        let Some(own) = self.own.as_ref().filter(|own| own.port == port) else { return Ok(()) };
        // A server that listens on all interfaces answers at every loopback address.
        let local = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified();
        let ours: Vec<IpAddr> = match tokio::net::lookup_host((own.host.as_str(), own.port)).await {
            Ok(addresses) => addresses.map(|address| address.ip()).collect(),
            // The host name is compared below in any case.
            Err(_) => Vec::new(),
        };
        let same = |ip: IpAddr| {
            // An IPv4 address may be written as an IPv6 address.
            let ip = ip.to_canonical();
            ours.iter().map(IpAddr::to_canonical).any(|our| our == ip || (local(our) && local(ip)))
        };
        if own.host.eq_ignore_ascii_case(&asked.host)
            || asked.addresses.iter().any(|address| same(address.ip()))
        {
            return Err(Error::new(
                ErrorKind::Denied,
                "canvases may not access the server of this program's own database",
            )
            .help("put the data on another server"));
        }
        Ok(())
    }
}

/// Replaces the error of a connection that was closed on purpose because the answer was too large.
fn told(error: Error, tunnel: &Tunnel, request: &SqlRequest) -> Error {
    if tunnel.has_overflown() { too_much(request.bytes_max) } else { error }
}

#[async_trait]
impl Databases for DatabaseClients {
    async fn ask(&self, tenant: &TenantId, request: SqlRequest) -> Result<Vec<SqlAnswer>> {
        let asking = self.answers(tenant, &request);
        // Around everything: looking up the name and signing in count, too.
        let answered = tokio::time::timeout(request.time_limit, asking).await;
        answered.unwrap_or_else(|_| Err(late(request.time_limit)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_core::seam::databases::{Database, SqlPart, TlsMode};
    use weft_core::secret::Secret;
    use weft_net::AllowList;

    use super::*;

    #[tokio::test]
    async fn a_query_of_a_file_waits_for_its_turn_within_its_time() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.db"), "").unwrap();
        let files = folder.path().to_owned();
        let outbound = Arc::new(Outbound::open(AllowList::parse(["127.0.0.1"]).unwrap()));
        let clients = DatabaseClients::new(outbound, Arc::new(move |_| Some(files.clone())), None);
        let asked = |time_limit: Duration| {
            let (host, user, name) = (String::new(), String::new(), "a.db".to_owned());
            let (password, tls) = (Secret::default(), TlsMode::default());
            let database = Database { kind: DatabaseKind::Sqlite, host, port: 0, name, user, password, tls };
            let sql = vec![SqlPart::Text("SELECT 1".to_owned())];
            let request = SqlRequest { database, sql, rows_max: 2, bytes_max: 1_000, time_limit };
            let clients = clients.clone();
            async move { clients.ask(&"t".into(), request).await }
        };
        let at_once = u32::try_from(clients.files_at_once.available_permits()).unwrap();
        let taken = Arc::clone(&clients.files_at_once).acquire_many_owned(at_once).await.unwrap();
        let late = asked(Duration::from_millis(50)).await.unwrap_err();
        assert_eq!(late.kind, ErrorKind::Timeout);
        drop(taken);
        assert!(asked(Duration::from_secs(20)).await.is_ok());
        assert_eq!(clients.files_at_once.available_permits(), usize::try_from(at_once).unwrap());
    }
}
