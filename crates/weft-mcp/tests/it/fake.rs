//! A scripted server. [`Fake`] is its behaviour; the transports are elsewhere.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value as Json, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// The sender for a server's messages.
pub(crate) type Out = mpsc::Sender<Json>;
pub(crate) const MESSAGES_MAX: usize = 1_000;

/// The configuration of the fake, and what it has received.
pub(crate) struct Fake {
    pub tools: Mutex<Vec<Json>>,
    /// The version it answers with; if absent, the requested one.
    pub version: Mutex<Option<&'static str>>,
    /// Tools per page of its list.
    pub page: AtomicUsize,
    /// Size of the answer of `huge` in bytes.
    pub huge: AtomicUsize,
    /// Number of connections or sessions that were opened.
    pub sessions: AtomicUsize,
    /// Methods that it never answers.
    pub deaf: Mutex<Vec<&'static str>>,
    seen: Mutex<Vec<Json>>,
    /// Connections for unsolicited messages.
    pub outs: Mutex<Vec<Out>>,
    changed: Notify,
    /// Speaks the protocol without `initialize`.
    pub modern: AtomicBool,
    /// The versions that it names when it refuses another one.
    pub supported: Mutex<Vec<&'static str>>,
    /// Lets `slow` answer.
    pub release: Notify,
}

/// What the fake does with a message.
pub(crate) enum Taken {
    Well,
    /// The connection closes without an answer.
    Dies,
}

pub(crate) fn tool(name: &str) -> Json {
    json!({
        "name": name,
        "description": format!("does {name}"),
        "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}, "required": ["q"]},
    })
}

impl Fake {
    pub(crate) fn new(tools: &[&str]) -> Arc<Self> {
        Arc::new(Self {
            tools: Mutex::new(tools.iter().map(|name| tool(name)).collect()),
            version: Mutex::new(None),
            page: AtomicUsize::new(1_000),
            huge: AtomicUsize::new(0),
            sessions: AtomicUsize::new(0),
            deaf: Mutex::default(),
            seen: Mutex::default(),
            outs: Mutex::default(),
            changed: Notify::new(),
            modern: AtomicBool::new(false),
            supported: Mutex::default(),
            release: Notify::new(),
        })
    }

    pub(crate) fn sessions(&self) -> usize {
        self.sessions.load(Ordering::SeqCst)
    }

    /// How many messages of this method have arrived.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|message| message["method"] == method).count()
    }

    /// The messages of this method so far.
    pub(crate) fn seen(&self, method: &str) -> Vec<Json> {
        self.seen.lock().unwrap().iter().filter(|message| message["method"] == method).cloned().collect()
    }

    /// Waits until that many messages of this method have arrived.
    pub(crate) async fn until(&self, method: &str, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.count(method) >= count {
                return;
            }
            changed.await;
        }
    }

    /// Sends a message to all connections.
    pub(crate) async fn announce(&self, message: &Json) {
        let outs = self.outs.lock().unwrap().clone();
        for out in outs {
            // A closed connection gets nothing.
            drop(out.send(message.clone()).await);
        }
    }

    /// Handles one message and sends what follows from it.
    pub(crate) async fn take(&self, message: Json, out: &Out) -> Taken {
        self.seen.lock().unwrap().push(message.clone());
        self.changed.notify_waiters();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let Some(id) = message.get("id").cloned().filter(|_| !method.is_empty()) else { return Taken::Well };
        if self.deaf.lock().unwrap().contains(&method.as_str()) {
            return Taken::Well;
        }
        let answer = match method.as_str() {
            "initialize" if self.modern.load(Ordering::SeqCst) => {
                json!({"error": {"code": -32601, "message": "Method not found"}})
            }
            "initialize" if self.refuses(&message) => {
                let data = json!({"supported": *self.supported.lock().unwrap(), "requested": message["params"]["protocolVersion"]});
                json!({"error": {"code": -32602, "message": "Unsupported protocol version", "data": data}})
            }
            "server/discover" if self.modern.load(Ordering::SeqCst) => json!({"result": {
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 1000, "cacheScope": "private",
                "capabilities": {"tools": {"listChanged": true}},
            }}),
            "initialize" => json!({"result": self.initialized(&message)}),
            "ping" => json!({"result": {}}),
            "tools/list" => json!({"result": self.listed(&message["params"])}),
            "tools/call" => match self.call(&message["params"], out).await {
                Some(answer) => answer,
                None => return Taken::Dies,
            },
            _ => json!({"error": {"code": -32601, "message": "no such method"}}),
        };
        let mut whole = json!({"jsonrpc": "2.0", "id": id});
        for (name, value) in answer.as_object().unwrap() {
            whole[name] = value.clone();
        }
        // A closed connection gets nothing.
        drop(out.send(whole).await);
        Taken::Well
    }

    fn refuses(&self, message: &Json) -> bool {
        let supported = self.supported.lock().unwrap();
        !supported.is_empty()
            && !supported.iter().any(|version| message["params"]["protocolVersion"] == *version)
    }

    fn initialized(&self, message: &Json) -> Json {
        let asked = message["params"]["protocolVersion"].clone();
        let version = self.version.lock().unwrap().map_or(asked, Json::from);
        json!({
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "fake", "version": "1"},
        })
    }

    fn listed(&self, params: &Json) -> Json {
        let tools = self.tools.lock().unwrap();
        let from: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let to = (from + self.page.load(Ordering::SeqCst)).min(tools.len());
        let mut page = json!({"tools": tools[from..to]});
        if to < tools.len() {
            page["nextCursor"] = to.to_string().into();
        }
        page
    }

    async fn call(&self, params: &Json, out: &Out) -> Option<Json> {
        let text = |text: String| json!({"result": {"content": [{"type": "text", "text": text}]}});
        let arguments = &params["arguments"];
        let name = params["name"].as_str().unwrap_or_default();
        if !self.tools.lock().unwrap().iter().any(|tool| tool["name"] == name) {
            return Some(json!({"error": {"code": -32602, "message": format!("unknown tool {name}")}}));
        }
        match name {
            "slow" => {
                self.release.notified().await;
                Some(text("at last".to_owned()))
            }
            "never" => std::future::pending().await,
            "die" => None,
            "huge" => Some(text("x".repeat(self.huge.load(Ordering::SeqCst)))),
            "fails" => {
                Some(json!({"result": {"content": [{"type": "text", "text": "no luck"}], "isError": true}}))
            }
            "refuses" => {
                Some(json!({"error": {"code": -32603, "message": "broken with s3cret-token inside"}}))
            }
            "steps" => {
                for at in 1..=3 {
                    let told = json!({"progressToken": params["_meta"]["progressToken"], "progress": at, "total": 3, "message": format!("step {at}")});
                    out.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}))
                        .await
                        .unwrap();
                    tokio::task::yield_now().await;
                }
                self.release.notified().await;
                Some(text("done".to_owned()))
            }
            "chatters" => {
                for at in 1_u64.. {
                    let told = json!({"progressToken": params["_meta"]["progressToken"], "progress": at});
                    let told = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": told});
                    if out.send(told).await.is_err() {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
                None
            }
            "kinds" => Some(json!({"result": kinds()})),
            _ => Some(text(arguments.to_string())),
        }
    }

    /// Serves a pair of byte streams until one side closes.
    pub(crate) async fn speak(
        self: Arc<Self>,
        source: impl AsyncRead + Unpin,
        mut sink: impl AsyncWrite + Unpin,
    ) {
        self.sessions.fetch_add(1, Ordering::SeqCst);
        let (out, mut messages) = mpsc::channel::<Json>(MESSAGES_MAX);
        self.outs.lock().unwrap().push(out.clone());
        let (end, mut ended) = mpsc::channel::<()>(1);
        let mut lines = BufReader::new(source).lines();
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                _ = ended.recv() => return,
                message = messages.recv() => {
                    let line = format!("{}\n", message.unwrap());
                    if sink.write_all(line.as_bytes()).await.is_err() || sink.flush().await.is_err() {
                        return;
                    }
                }
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let (fake, out, end) = (Arc::clone(&self), out.clone(), end.clone());
                    tasks.spawn(async move {
                        if let Taken::Dies = fake.take(serde_json::from_str(&line).unwrap(), &out).await {
                            end.send(()).await.unwrap();
                        }
                    });
                }
            }
        }
    }
}

/// One content block of each kind.
fn kinds() -> Json {
    json!({
        "content": [
            {"type": "text", "text": "汉字"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///a.bin", "mimeType": "application/zip", "blob": "AA=="}},
            {"type": "resource_link", "uri": "file:///b.txt", "name": "b", "mimeType": "text/plain"},
            {"type": "hologram", "size": 3},
        ],
        "structuredContent": {"found": 2},
    })
}
