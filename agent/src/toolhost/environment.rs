//! The environment that every command starts from.

use std::collections::HashMap;

/// The egress door, as the box's image and driver promise it.
const DOOR: &str = "http://127.0.0.1:3128";

/// What a command sees besides what its caller adds. Nothing is inherited from the toolhost.
const BASE: [(&str, &str); 16] = [
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
    ("http_proxy", DOOR),
    ("https_proxy", DOOR),
    ("HTTP_PROXY", DOOR),
    ("HTTPS_PROXY", DOOR),
    ("no_proxy", "localhost,127.0.0.1,::1"),
];

/// Returns the base with `home` in it and the caller's variables over it.
pub(crate) fn environment(home: &str, over: HashMap<String, String>) -> HashMap<String, String> {
    let mut all: HashMap<String, String> = BASE
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    all.insert("NO_PROXY".to_owned(), "localhost,127.0.0.1,::1".to_owned());
    all.insert("HOME".to_owned(), home.to_owned());
    all.extend(over);
    all
}
