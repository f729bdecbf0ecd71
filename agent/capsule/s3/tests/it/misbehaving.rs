//! A server that does as little of S3 as is asked of it, and does it badly when told to.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use cocoonbox_capsule_s3::{Address, Credentials, S3};

/// What is done to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The answer is this status; nothing is done.
    Answers(u16),
    /// It is done, and the connection ends without an answer.
    LosesAnswer,
    /// Half of the body is sent.
    Short,
    /// The object is forgotten first.
    Forgets,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) objects: BTreeMap<String, Vec<u8>>,
    /// For the next requests of a method, in turn.
    pub(crate) faults: VecDeque<(&'static str, Fault)>,
    /// Heads of all requests.
    pub(crate) heads: Vec<String>,
    pub(crate) ignores_conditions: bool,
    pub(crate) ignores_ranges: bool,
}

pub(crate) struct Misbehaving {
    pub(crate) state: Arc<Mutex<State>>,
    port: u16,
}

impl Misbehaving {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<Mutex<State>>::default();
        let of_server = state.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = of_server.clone();
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { state, port }
    }

    pub(crate) fn store(&self, query: &str) -> S3 {
        let text = format!(
            "s3://bucket/p?endpoint=http://127.0.0.1:{}{query}",
            self.port
        );
        let credentials = Credentials::parse("access_key_id = A\nsecret_access_key = B").unwrap();
        S3::open(Address::parse(&text).unwrap(), &credentials).unwrap()
    }

    pub(crate) fn will(&self, method: &'static str, fault: Fault) {
        self.state.lock().unwrap().faults.push_back((method, fault));
    }
}

/// Requests of one connection.
fn serve(stream: &TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let mut head = String::new();
        loop {
            let before = head.len();
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
            if &head[before..] == "\r\n" {
                break;
            }
        }
        let header = |name: &str| {
            head.lines().find_map(|line| {
                let (own, value) = line.split_once(':')?;
                own.eq_ignore_ascii_case(name)
                    .then(|| value.trim().to_owned())
            })
        };
        let length = header("content-length").map_or(0, |text| text.parse().unwrap());
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let mut first = head.split(' ');
        let (method, target) = (
            first.next().unwrap().to_owned(),
            first.next().unwrap().to_owned(),
        );
        let key = target
            .split('?')
            .next()
            .unwrap()
            .trim_start_matches("/bucket/")
            .to_owned();
        let mut state = state.lock().unwrap();
        state.heads.push(head.clone());
        let fault = state
            .faults
            .front()
            .filter(|(of, _)| *of == method)
            .map(|(_, fault)| *fault);
        if fault.is_some() {
            state.faults.pop_front();
        }
        if let Some(Fault::Answers(status)) = fault {
            drop(state);
            answer(stream, status, &[], b"", false);
            continue;
        }
        if fault == Some(Fault::Forgets) {
            state.objects.remove(&key);
        }
        let (status, headers, found) = does(&mut state, &method, &key, &body, &header);
        drop(state);
        if fault == Some(Fault::LosesAnswer) {
            stream.shutdown(std::net::Shutdown::Both).ok();
            return;
        }
        let is_short = fault == Some(Fault::Short);
        answer(
            stream,
            status,
            &headers,
            &found,
            is_short || method == "HEAD",
        );
        if is_short {
            let mut stream = stream;
            stream.write_all(&found[..found.len() / 2]).ok();
            stream.shutdown(std::net::Shutdown::Both).ok();
            return;
        }
    }
}

type Answer = (u16, Vec<String>, Vec<u8>);

fn does(
    state: &mut State,
    method: &str,
    key: &str,
    body: &[u8],
    header: &dyn Fn(&str) -> Option<String>,
) -> Answer {
    let plain = |status| (status, Vec::new(), Vec::new());
    let stamp = "Last-Modified: Mon, 30 Nov 2026 12:00:00 GMT".to_owned();
    match method {
        "PUT" => {
            let is_there = state.objects.contains_key(key) && !state.ignores_conditions;
            if header("if-none-match").is_some() && is_there {
                return plain(412);
            }
            state.objects.insert(key.to_owned(), body.to_vec());
            plain(200)
        }
        "DELETE" => {
            state.objects.remove(key);
            plain(204)
        }
        _ => {
            let Some(bytes) = state.objects.get(key) else {
                return plain(404);
            };
            let range = header("range").filter(|_| !state.ignores_ranges);
            let Some(range) = range else {
                return (200, vec![stamp], bytes.clone());
            };
            let (from, to) = range.trim_start_matches("bytes=").split_once('-').unwrap();
            let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
            if from >= bytes.len() {
                return plain(416);
            }
            let to = to.min(bytes.len() - 1);
            let told = format!("Content-Range: bytes {from}-{to}/{}", bytes.len());
            (206, vec![stamp, told], bytes[from..=to].to_vec())
        }
    }
}

fn answer(mut stream: &TcpStream, status: u16, headers: &[String], body: &[u8], no_body: bool) {
    let mut text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", body.len());
    for header in headers {
        text.push_str(header);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    stream.write_all(text.as_bytes()).ok();
    if !no_body {
        stream.write_all(body).ok();
    }
}
