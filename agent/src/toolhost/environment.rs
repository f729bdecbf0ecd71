//! The environment that every command starts from.

use std::collections::HashMap;

/// What a command sees besides what its caller adds. Nothing is inherited from the toolhost.
const BASE: [(&str, &str); 14] = [
    ("HOME", "/home/user"),
    ("USER", "user"),
    ("LOGNAME", "user"),
    ("SHELL", "/bin/bash"),
    (
        "PATH",
        "/home/user/.local/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin",
    ),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    // Without a terminal a password prompt would hang for ever.
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("NO_COLOR", "1"),
    // What programs beyond git ask for a pager or an editor, and wait for.
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
];

/// What a terminal changes: programs may draw and colour.
const AT_TERMINAL: [(&str, &str); 1] = [("TERM", "xterm-256color")];

/// What is reached without the door.
const OWN: &str = "localhost,127.0.0.1,::1";

/// Returns the base with `home` and `door` in it and the caller's variables over it.
pub(crate) fn environment(
    home: &str,
    door: &str,
    at_terminal: bool,
    over: HashMap<String, String>,
) -> HashMap<String, String> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut all: HashMap<String, String> = BASE.iter().map(own).collect();
    if at_terminal {
        all.extend(AT_TERMINAL.iter().map(own));
        all.remove("NO_COLOR");
    }
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
        all.insert(name.to_owned(), door.to_owned());
    }
    for name in ["no_proxy", "NO_PROXY"] {
        all.insert(name.to_owned(), OWN.to_owned());
    }
    all.insert("HOME".to_owned(), home.to_owned());
    all.extend(over);
    all
}
