//! `weft serve`, used over HTTP.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::{Value as Json, json};

use crate::weft::{Home, Running, ask_a_model, sample};

/// A running server.
pub(crate) struct Server {
    running: Running,
    address: SocketAddr,
    pub token: Option<String>,
}

impl Server {
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::of(home.start(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat()))
    }

    /// A server started by this command, with additional environment variables.
    pub(crate) fn with(command: std::process::Command) -> Self {
        Self::of(Running::start(command))
    }

    /// Stops the server; returns what it has printed since, and its log.
    pub(crate) fn log(self) -> (String, String) {
        self.running.signal("TERM");
        let ended = self.running.end().with(0);
        (ended.stdout, ended.stderr)
    }

    fn of(mut running: Running) -> Self {
        let mut token = None;
        loop {
            let line = running.told("");
            if let Some((_, shown)) = line.split_once("Token, shown this once: ") {
                token = Some(shown.trim().to_owned());
            }
            if let Some((_, rest)) = line.split_once("listens on http://") {
                let address = rest.split(';').next().unwrap().parse().unwrap();
                return Self { running, address, token };
            }
        }
    }

    /// Posts JSON; returns the status line and the whole response.
    pub(crate) fn post(&self, path: &str, token: Option<&str>, body: &Json) -> (String, String) {
        let body = body.to_string();
        let authorization =
            token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n\
             {authorization}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), body.to_owned())
    }

    /// The response to a GET.
    pub(crate) fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn stop(self) -> String {
        self.running.signal("TERM");
        let ended = self.running.end().with(0);
        assert!(ended.stderr.contains("Stopped."), "{}", ended.stderr);
        ended.stdout
    }
}

/// The `content` of all messages of a stream, and how often the run finished.
fn said(stream: &str) -> (String, usize) {
    let events = stream.lines().filter_map(|line| line.strip_prefix("data:"));
    let events: Vec<Json> = events.filter_map(|event| serde_json::from_str(event.trim()).ok()).collect();
    let of = |name: &'static str| events.iter().filter(move |event| event["event"] == name);
    let text = of("message").filter_map(|event| event["data"]["content"].as_str()).collect();
    (text, of("message_end").count())
}

#[test]
fn a_completion_streams_and_its_session_survives_a_restart() {
    let home = Home::quoting();
    let agent = format!("memory={}", sample("remember_turns"));
    let arguments = ["--agent", &agent, "--no-auth"];
    let path = "/api/v1/agents/memory/completions";
    let ask = |server: &Server, query: &str| {
        let (status, stream) =
            server.post(path, None, &json!({"query": query, "session_id": "s1", "stream": true}));
        assert!(status.contains(" 200 "), "{status}: {stream}");
        said(&stream)
    };
    let server = Server::start(&home, &arguments);
    assert_eq!(server.token, None);
    let (text, ends) = ask(&server, "I like tea");
    assert!(text.starts_with("Turn 1") && ends == 1, "{text}");
    assert_eq!(server.stop(), "");
    let server = Server::start(&home, &arguments);
    let (text, _) = ask(&server, "I like rain");
    assert!(text.starts_with("Turn 2") && text.contains("I like tea"), "{text}");
    server.stop();
}

#[test]
fn the_token_is_shown_once_and_required_from_then_on() {
    let home = Home::scripted(&json!({"replies": [{"times": 0, "say": [{"text": "Fine."}]}]}));
    home.write("c.json", ask_a_model().to_string());
    let server = Server::start(&home, &["--agent", "a=c.json"]);
    let token = server.token.clone().unwrap();
    let body = json!({"query": "x", "stream": true});
    let refused = server.post("/api/v1/agents/a/completions", None, &body);
    assert!(!refused.1.contains("Fine."), "{refused:?}");
    let wrong = server.post("/api/v1/agents/a/completions", Some("weft-wrong"), &body);
    assert!(!wrong.1.contains("Fine."), "{wrong:?}");
    let (_, stream) = server.post("/api/v1/agents/a/completions", Some(&token), &body);
    assert!(said(&stream).0.ends_with("Fine."), "{stream}");
    server.stop();
    let again = Server::start(&home, &[]);
    assert_eq!(again.token, None);
    let (_, stream) = again.post("/api/v1/agents/a/completions", Some(&token), &body);
    assert!(said(&stream).0.ends_with("Fine."), "{stream}");
    again.stop();
}

#[test]
fn how_to_get_a_key_is_told_at_each_start() {
    let home = Home::quoting();
    let told = |arguments: &[&str]| {
        let mut running = home.start(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        let mut lines = String::new();
        while !lines.contains("listens on http://") {
            lines += &running.told("");
        }
        running.signal("TERM");
        running.end().with(0);
        lines
    };
    let first = told(&["--data", "d"]);
    assert!(first.contains("Token, shown this once: "), "{first}");
    // Of the key that exists only a hash is stored.
    let second = told(&["--data", "d"]);
    assert!(!second.contains("Token, shown this once: "), "{second}");
    for lines in [&first, &second] {
        for part in
            ["Bearer KEY", "weft token create NAME --data d", "weft user create EMAIL --role owner --data d"]
        {
            assert!(lines.contains(part), "no {part:?} in:\n{lines}");
        }
    }
    home.weft(&["token", "create", "me", "--data", "d"]).with(0);
    let open = told(&["--data", "d", "--no-auth"]);
    assert!(open.contains("full access") && !open.contains("weft token create"), "{open}");
}

/// A served canvas can be called as `published`, and is a tool of MCP clients.
#[test]
fn a_served_canvas_is_published_and_follows_its_file() {
    let home = Home::quoting();
    let says = |text: &str| {
        json!({"components": {
            "begin": {"obj": {"component_name": "Begin", "params": {}}, "downstream": ["Message:M"]},
            "Message:M": {"obj": {"component_name": "Message", "params": {"content": [text]}}},
        }})
    };
    for text in ["One.", "Two."] {
        home.write("c.json", says(text).to_string());
        let server = Server::start(&home, &["--agent", "a=c.json", "--no-auth"]);
        let body = json!({"query": "x", "stream": true, "version": "published"});
        let (_, stream) = server.post("/api/v1/agents/a/completions", None, &body);
        assert_eq!(said(&stream).0, text, "{stream}");
        server.stop();
    }
}

#[test]
fn a_port_in_use_is_named() {
    let home = Home::quoting();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    home.weft(&["serve", "--listen", &address]).with(2).says(&[&address, "--listen"]);
}

#[test]
fn a_server_prints_where_its_routes_are_described() {
    let home = Home::quoting();
    let mut running = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let line = running.told("is described at http://");
    let address = running.told("listens on http://");
    let address = address.split("http://").nth(1).unwrap().split(';').next().unwrap();
    assert!(line.contains(&format!("http://{address}/api/docs")), "{line}");
    let server = Server { running, address: address.parse().unwrap(), token: None };
    assert!(server.get("/api/docs").starts_with("HTTP/1.1 200"));
    server.stop();
}

#[test]
fn an_agent_whose_title_is_taken_is_still_served() {
    let home = Home::quoting();
    let file = sample("remember_turns");
    let canvas: Json = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let server = Server::start(&home, &["--no-auth"]);
    let (_, stored) = server.post("/api/canvas/set", None, &json!({"title": "Memory", "dsl": canvas}));
    assert!(stored.contains("\"code\":0"), "{stored}");
    server.stop();
    // Also after a restart.
    for _ in 0..2 {
        let server = Server::start(&home, &["--no-auth", "--agent", &format!("memory={file}")]);
        let listed = server.get("/api/v1/agents");
        assert!(listed.contains("\"Memory\"") && listed.contains("\"memory (2)\""), "{listed}");
        server.stop();
    }
}

#[test]
fn without_authentication_only_a_loopback_address_is_accepted() {
    let home = Home::quoting();
    home.weft(&["serve", "--listen", "0.0.0.0:0", "--no-auth"]).with(2).says(&["0.0.0.0:0", "127.0.0.1"]);
}

#[test]
fn the_largest_numbers_mean_no_limit() {
    let home = Home::quoting();
    let agent = format!("memory={}", sample("remember_turns"));
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0", "--no-auth", "--agent", &agent]);
    for name in ["LIMITS__RUNS_AT_ONCE", "LIMITS__SHUTDOWN_SECONDS", "BROWSER__AT_ONCE"] {
        command.env(format!("WEFT_{name}"), u64::MAX.to_string());
    }
    let server = Server::with(command);
    let ask = json!({"query": "x", "session_id": "s", "stream": true});
    let (_, stream) = server.post("/api/v1/agents/memory/completions", None, &ask);
    assert_eq!(said(&stream).1, 1, "{stream}");
    server.stop();
}

#[test]
fn an_agent_with_errors_prevents_the_server_from_starting() {
    let home = Home::quoting();
    home.write("c.json", "{\"components\": {}}");
    home.weft(&["serve", "--listen", "127.0.0.1:0", "--agent", "a=c.json"]).with(2).says(&["c.json"]);
    home.weft(&["serve", "--listen", "127.0.0.1:0", "--agent", "a"]).with(2).says(&["--agent a", "ID=FILE"]);
    home.weft(&["serve", "--listen", "nowhere"]).with(2).says(&["nowhere"]);
}

#[test]
fn one_server_can_provide_every_model() {
    let models = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", models.local_addr().unwrap());
    let home = Home::new();
    let mut canvas = ask_a_model();
    canvas["components"]["LLM:A"]["obj"]["params"]["llm_id"] = "tiny@OpenAI-API-Compatible".into();
    home.write("c.json", canvas.to_string());
    let mut command = home.command(&["run", "c.json", "--query", "x"]);
    let child =
        command.env("WEFT_OPENAI_BASE_URL", &url).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let (mut stream, _) = models.accept().unwrap();
    let request = request(&mut stream);
    assert!(request.starts_with("POST /v1/chat/completions "), "{request}");
    assert!(
        request.contains("\"model\":\"tiny\"") && request.to_lowercase().contains("bearer x"),
        "{request}"
    );
    let chunk = |delta: Json, reason: Json| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
    let body = format!(
        "data: {}\n\ndata: {}\n\ndata: [DONE]\n\n",
        chunk(json!({"content": "hello"}), Json::Null),
        chunk(json!({}), json!("stop"))
    );
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    drop(stream);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"hello\n".as_slice()));
}

/// Asks a person whether to continue, then outputs what it finds in a dataset.
fn searching(dataset: &str) -> Json {
    let fill = json!({"enable_tips": false, "tips": "",
        "inputs": {"go": {"name": "Go on", "type": "boolean", "optional": false, "options": []}}});
    let retrieval = json!({"query": "{sys.query}", "kb_ids": [dataset], "similarity_threshold": 0.0,
        "keywords_similarity_weight": 1, "top_n": 3, "top_k": 64, "empty_response": "Nothing was found.",
        "outputs": {"formalized_content": {"type": "string", "value": ""}}});
    let node = |kind: &str, params: &Json, before: &[&str], after: &[&str]| json!({"obj": {"component_name": kind, "params": params}, "downstream": after, "upstream": before});
    json!({"components": {
        "begin": node("Begin", &json!({"mode": "conversational", "enablePrologue": false, "prologue": "", "inputs": {}}), &[], &["UserFillUp:F"]),
        "UserFillUp:F": node("UserFillUp", &fill, &["begin"], &["Retrieval:R"]),
        "Retrieval:R": node("Retrieval", &retrieval, &["UserFillUp:F"], &["Message:M"]),
        "Message:M": node("Message", &json!({"content": ["{Retrieval:R@formalized_content}"]}), &["Retrieval:R"], &[]),
    }, "globals": {"sys.query": ""}, "history": [], "path": [], "retrieval": []})
}

/// A client that stores a canvas chooses its description, which must not lead into folders of the operator.
#[test]
fn a_description_is_never_used_as_a_path() {
    let home = Home::quoting();
    let folder = home.path().join("mine");
    std::fs::create_dir_all(folder.join("documents")).unwrap();
    std::fs::write(folder.join("documents/safe.md"), "The code of the safe is quokka.").unwrap();
    let (file, canvas) = (folder.join("canvas.json"), searching("mine"));
    std::fs::write(&file, canvas.to_string()).unwrap();
    let task = || {
        let tasks = home.weft(&["tasks", "--json", "--data", "d"]).with(0).json_lines();
        assert_eq!(tasks.len(), 1);
        tasks[0]["id"].as_str().unwrap().to_owned()
    };
    // A canvas that the operator runs from its file finds the documents beside it, also when it is resumed later.
    home.weft(&["run", "mine/canvas.json", "--query", "code of the safe", "--data", "d"]).with(3);
    let own = home.weft(&["tasks", "answer", &task(), "--input", "go=true", "--data", "d"]).with(0);
    assert!(own.stdout.contains("quokka"), "{}", own.stdout);

    let server = Server::start(&home, &["--data", "d"]);
    let token = server.token.clone().unwrap();
    let body = json!({"title": "theirs", "description": file.to_string_lossy(), "dsl": canvas});
    let (_, stored) = server.post("/api/v1/agents", Some(&token), &body);
    let stored: Json = serde_json::from_str(&stored).unwrap();
    let id = stored["data"]["id"].as_str().unwrap_or_else(|| panic!("{stored}"));
    let asked = json!({"query": "code of the safe", "stream": false});
    let (status, answer) = server.post(&format!("/api/v1/agents/{id}/completions"), Some(&token), &asked);
    assert!(status.contains("200"), "{answer}");
    assert_eq!(server.stop(), "");
    let theirs = home.weft(&["tasks", "answer", &task(), "--input", "go=true", "--events", "--data", "d"]);
    assert!(!theirs.stdout.contains("quokka") && !theirs.stderr.contains("beside"), "{theirs:?}");
    let run = home.weft(&["runs", "list", "--json", "--data", "d"]).json_lines()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    home.weft(&["eval", "record", "--run", &run, "-o", "x.yaml", "--data", "d"])
        .with(2)
        .says(&["the file of the canvas", "is not known"]);
}

/// Each connection with a half-sent request occupies a file descriptor that others need.
#[cfg(unix)]
#[test]
fn half_sent_requests_do_not_block_others() {
    let home = Home::quoting();
    let server = Server::of(home.start_with_files("-n 128", &["serve", "--listen", "127.0.0.1:0"]));
    let half = || {
        let mut stream = TcpStream::connect(server.address).unwrap();
        drop(stream.write_all(b"POST /api/v1/agents HTTP/1.1\r\nHost: x\r\nX-Half: "));
        stream
    };
    let halves: Vec<TcpStream> = (0..300).map(|_| half()).collect();
    for _ in 0..5 {
        let body = json!({"title": "x", "dsl": {}});
        let (status, answer) = server.post("/api/v1/agents", Some("wrong"), &body);
        assert!(status.contains("401"), "{status}: {answer}");
    }
    drop(halves);
    assert_eq!(server.stop(), "");
}

/// The usual soft limit of open files exists for old programs. If it applied, the first of these connections would
/// have been closed to make room.
#[cfg(unix)]
#[test]
fn a_server_raises_its_soft_limit_of_open_files() {
    let home = Home::quoting();
    let server = Server::of(home.start_with_files("-S -n 128", &["serve", "--listen", "127.0.0.1:0"]));
    let mut idle: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    // Connections are accepted in order, and this is the last.
    let (status, answer) = server.post("/api/v1/agents", Some("wrong"), &json!({"title": "x", "dsl": {}}));
    assert!(status.contains("401"), "{status}: {answer}");
    idle[0].set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let seen = idle[0].read(&mut [0]).map_err(|error| error.kind());
    let is_open = matches!(seen, Err(std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut));
    assert!(is_open, "{seen:?}");
    drop(idle);
    assert_eq!(server.stop(), "");
}

/// Reads a whole request with its body.
fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
            if body.len() >= length.unwrap_or(0_usize) {
                return text;
            }
        }
        let read = stream.read(&mut piece).unwrap();
        assert_ne!(read, 0, "the request was cut off");
        bytes.extend_from_slice(&piece[..read]);
    }
}

#[test]
fn two_agents_with_one_id_are_refused() {
    let home = Home::quoting();
    let (first, second) = (format!("a={}", sample("greet")), format!("a={}", sample("diamond")));
    let told = ["--agent a is given twice", "diamond/canvas.json", "an id of its own"];
    home.weft(&["serve", "--listen", "127.0.0.1:0", "--agent", &first, "--agent", &second])
        .with(2)
        .says(&told);
}
