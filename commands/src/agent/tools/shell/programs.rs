//! What programs do, as far as their names and options say it.

use cocoonbox_proto::log::v1::Risk;

use crate::agent::tools::{place, text::Word};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Reads,
    /// Writes what its arguments name.
    Writes,
    WritesOutside,
    /// Runs what the workspace has: its build and its tests.
    Builds,
    Network,
    Destroys,
    Pays,
    /// Runs another program that its arguments name.
    Wraps,
    Shell,
    Interprets,
    /// Its arguments decide.
    Special,
    Unknown,
}

/// Returns what a program does.
pub(super) fn kind(name: &str) -> Kind {
    match name {
        "ls" | "cat" | "head" | "tail" | "grep" | "rg" | "egrep" | "fgrep" | "zgrep" | "zcat"
        | "wc" | "uniq" | "cut" | "tr" | "diff" | "cmp" | "comm" | "file" | "stat" | "du"
        | "df" | "pwd" | "whoami" | "id" | "groups" | "uname" | "hostname" | "which" | "type"
        | "printenv" | "echo" | "printf" | "true" | "false" | "test" | "[" | "[[" | "ps"
        | "free" | "uptime" | "lsof" | "ss" | "netstat" | "jq" | "realpath" | "readlink"
        | "basename" | "dirname" | "md5sum" | "sha1sum" | "sha256sum" | "sha512sum" | "b3sum"
        | "cksum" | "xxd" | "hexdump" | "od" | "strings" | "nl" | "seq" | "tac" | "rev"
        | "column" | "paste" | "join" | "fold" | "expand" | "fmt" | "sleep" | "wait"
        | "history" | "jobs" | "dig" | "nslookup" | "host" | "ping" | "cal" | "expr" | "factor"
        | "base64" | "base32" | "cd" | "pushd" | "popd" | "export" | "unset" | "set" | "read"
        | "shift" | "return" | "exit" | "break" | "continue" | "local" | "declare" | "readonly"
        | "shopt" | "ulimit" | "umask" | ":" | "fi" | "done" | "esac" | "}" | "]" | "for"
        | "case" | "in" | "select" | "tty" | "nproc" | "lscpu" | "lsblk" | "getent" | "locale"
        | "pgrep" | "yes" => Kind::Reads,
        "cp" | "mv" | "ln" | "mkdir" | "touch" | "install" | "tee" | "patch" | "rmdir"
        | "unzip" | "zip" | "gzip" | "gunzip" | "bzip2" | "xz" | "zstd" | "chmod" | "split"
        | "mktemp" | "mkfifo" | "rename" | "dos2unix" => Kind::Writes,
        "chown"
        | "chgrp"
        | "apt"
        | "apt-get"
        | "dpkg"
        | "dnf"
        | "yum"
        | "apk"
        | "brew"
        | "pip"
        | "pip3"
        | "pipx"
        | "gem"
        | "mount"
        | "umount"
        | "useradd"
        | "usermod"
        | "groupadd"
        | "passwd"
        | "systemctl"
        | "service"
        | "sysctl"
        | "setcap"
        | "update-alternatives" => Kind::WritesOutside,
        "make" | "cmake" | "ninja" | "meson" | "cargo" | "rustc" | "go" | "npm" | "pnpm"
        | "yarn" | "tsc" | "eslint" | "prettier" | "pytest" | "tox" | "nox" | "ruff" | "black"
        | "isort" | "mypy" | "uv" | "poetry" | "gcc" | "g++" | "cc" | "c++" | "clang"
        | "clang++" | "ld" | "ar" | "javac" | "mvn" | "gradle" | "dotnet" | "rustfmt" | "gofmt"
        | "jest" | "vitest" | "mocha" | "bundle" | "rake" | "composer" | "phpunit" | "mix"
        | "just" => Kind::Builds,
        "shred" | "wipefs" | "fdisk" | "sfdisk" | "parted" | "truncate" | "blkdiscard"
        | "mkswap" | "reboot" | "shutdown" | "poweroff" | "halt" | "init" | "telinit"
        | "iptables" | "nft" | "userdel" | "groupdel" | "deluser" | "killall5" | "skill"
        | "fuser" | "srm" | "alias" | "function" | "dropdb" | "dropuser" | "vgremove"
        | "lvremove" | "crontab" | "debugfs" => Kind::Destroys,
        name if name.starts_with("mkfs") => Kind::Destroys,
        "stripe" | "paypal" | "square" | "lncli" | "bitcoin-cli" | "cast" => Kind::Pays,
        "sudo" | "doas" | "su" | "runuser" | "env" | "nohup" | "nice" | "ionice" | "chrt"
        | "taskset" | "timeout" | "stdbuf" | "setsid" | "command" | "builtin" | "exec"
        | "watch" | "strace" | "ltrace" | "unshare" | "nsenter" | "chroot" | "flock" | "script"
        | "busybox" | "toybox" | "time" | "unbuffer" | "expect" | "firejail" | "proot"
        | "fakeroot" | "at" | "batch" | "tmux" | "screen" | "xvfb-run" | "dbus-run-session" => {
            Kind::Wraps
        }
        "sh" | "bash" | "zsh" | "dash" | "ksh" | "mksh" | "ash" | "fish" | "csh" | "tcsh"
        | "rbash" | "pwsh" => Kind::Shell,
        "node" | "perl" | "ruby" | "php" | "deno" | "bun" | "lua" | "luajit" | "Rscript"
        | "julia" | "tclsh" | "awk" | "gawk" | "mawk" | "nawk" | "psql" | "mysql" | "mariadb"
        | "sqlite3" | "mongosh" | "redis-cli" | "osascript" | "groovy" | "scala" | "ghci"
        | "python" => Kind::Interprets,
        name if name.starts_with("python") || name.starts_with("pypy") => Kind::Interprets,
        "git" | "rm" | "unlink" | "find" | "fd" | "xargs" | "parallel" | "eval" | "trap"
        | "source" | "." | "curl" | "wget" | "dd" | "kill" | "pkill" | "killall" | "sed"
        | "sort" | "yq" | "tree" | "date" | "tar" | "rsync" => Kind::Special,
        "ssh" | "scp" | "sftp" | "ftp" | "nc" | "ncat" | "netcat" | "socat" | "telnet" | "mail"
        | "sendmail" | "aws" | "gcloud" | "az" | "gh" | "glab" | "kubectl" | "helm" | "docker"
        | "podman" | "terraform" | "ansible" | "heroku" | "vercel" | "netlify" | "fly"
        | "flyctl" | "wrangler" | "firebase" | "twine" | "http" | "https" | "xh" | "npx"
        | "uvx" => Kind::Network,
        _ => Kind::Unknown,
    }
}

/// What a program that runs another one does by itself.
pub(super) fn least_of_wrapper(name: &str) -> Risk {
    match name {
        "sudo" | "doas" | "su" | "runuser" | "unshare" | "nsenter" | "chroot" => Risk::WriteOutside,
        "at" | "batch" | "tmux" | "screen" | "expect" | "script" => Risk::NetworkWrite,
        _ => Risk::Read,
    }
}

/// Returns how much harm code can do that is given as a text, or comes from elsewhere.
pub(super) fn interpreted(name: &str, args: &[Word]) -> Risk {
    const HARM: &[&str] = &[
        "system",
        "exec",
        "spawn",
        "popen",
        "subprocess",
        "child_process",
        "rmtree",
        "unlink",
        "remove",
        "rmdir",
        "rmsync",
        "rm(",
        "delete",
        "drop",
        "truncate",
        "flush",
        "kill",
        "eval",
        "`",
        "import(",
        "shutil",
        "ctypes",
        "compile",
        "base64",
        "b64",
        "chr(",
        "fromcharcode",
        "getattr",
        "\\x",
    ];
    let is_awk = name.ends_with("awk");
    let plain = |word: &Word| !word.text.starts_with('-');
    if name.starts_with("python")
        && let Some(at) = args.iter().position(|word| word.text == "-m")
    {
        return match args.get(at + 1).map(|word| word.text.as_str()) {
            Some(
                "pytest" | "unittest" | "compileall" | "py_compile" | "venv" | "mypy" | "ruff"
                | "black",
            ) => Risk::WriteWorkspace,
            Some("json.tool") => Risk::Read,
            _ => Risk::NetworkWrite,
        };
    }
    if args
        .iter()
        .any(|word| matches!(word.text.as_str(), "--version" | "-V"))
        && args.len() == 1
    {
        return Risk::Read;
    }
    let texts: Vec<&Word> = args.iter().filter(|word| plain(word)).collect();
    if texts.is_empty() && !is_awk {
        // It reads what it is to do from elsewhere.
        return Risk::Destructive;
    }
    let hides = |word: &&Word| {
        let text = word.text.to_ascii_lowercase();
        HARM.iter().any(|part| text.contains(part)) || (word.expanded && word.text.contains('$'))
    };
    if is_awk {
        let program = texts
            .first()
            .map(|word| word.text.as_str())
            .unwrap_or_default();
        let is_plain = args
            .iter()
            .all(|word| !word.text.starts_with("-f") && !word.text.starts_with("-i"))
            && !program.contains(['|', '>', '@', '('])
            && !program.contains("getline");
        return if is_plain {
            Risk::Read
        } else if args.iter().any(|word| hides(&word)) {
            Risk::Destructive
        } else {
            Risk::NetworkWrite
        };
    }
    if args.iter().any(|word| hides(&word)) {
        return Risk::Destructive;
    }
    Risk::NetworkWrite
}

/// `curl`: what it sends, and where it writes.
pub(super) fn curl(args: &[Word], leaves: bool) -> Risk {
    const MONEY: &[&str] = &[
        "pay", "charge", "checkout", "purchase", "invoice", "order", "transfer", "billing",
    ];
    let lower: Vec<String> = args
        .iter()
        .map(|word| word.text.to_ascii_lowercase())
        .collect();
    let method = args.iter().enumerate().find_map(|(at, word)| {
        let text = word.text.as_str();
        if text == "--request" || (is_short(text) && text.ends_with('X')) {
            return args.get(at + 1).map(|next| next.text.as_str());
        }
        text.strip_prefix("--request=")
            .or_else(|| text.strip_prefix("-X"))
    });
    let sends = args.iter().any(|word| {
        let text = word.text.as_str();
        [
            "--data",
            "--form",
            "--json",
            "--upload",
            "--config",
            "--url-query",
            "--quote",
            "--mail",
            "--proxy",
        ]
        .iter()
        .any(|part| text.starts_with(part))
            || (is_short(text) && text[1..].contains(['d', 'F', 'T', 'K', 'Q', 'x']))
    });
    let is_get = method.is_none_or(|method| matches!(method, "GET" | "HEAD" | "OPTIONS"));
    if method == Some("DELETE") {
        return Risk::Destructive;
    }
    if !is_get || sends {
        let is_money = lower
            .iter()
            .any(|word| MONEY.iter().any(|part| word.contains(part)));
        return if is_money {
            Risk::Money
        } else {
            Risk::NetworkWrite
        };
    }
    let writes = args.iter().any(|word| {
        let text = word.text.as_str();
        text.starts_with("--output")
            || text.starts_with("--remote-name")
            || text.starts_with("--cookie-jar")
            || text.starts_with("--dump-header")
            || text.starts_with("--trace")
            || (is_short(text) && text[1..].contains(['o', 'O', 'c', 'D']))
    });
    if writes {
        let paths = args.iter().filter(|word| !word.text.contains("://"));
        let outside = paths.map(|word| place::of(word, leaves)).max();
        return match outside {
            Some(place::Place::Device) => Risk::Destructive,
            Some(place::Place::Outside) => Risk::WriteOutside,
            _ => Risk::WriteWorkspace,
        };
    }
    Risk::Read
}

fn is_short(text: &str) -> bool {
    text.len() > 1 && text.starts_with('-') && !text.starts_with("--")
}

/// Whether every script of a `sed` only selects or replaces.
pub(super) fn is_plain_sed(args: &[Word]) -> bool {
    if args.iter().any(|word| {
        word.text.starts_with("-f")
            || word.text.starts_with("--f")
            || word.expanded && word.text.contains('$')
    }) {
        return false;
    }
    let mut scripts = args
        .iter()
        .enumerate()
        .filter(|(at, _)| {
            *at > 0 && matches!(args[at - 1].text.as_str(), "-e" | "--expression" | "-ne")
        })
        .map(|(_, word)| word)
        .peekable();
    if scripts.peek().is_none() {
        let first = args.iter().find(|word| !word.text.starts_with('-'));
        return first.is_some_and(|word| is_plain_script(&word.text));
    }
    scripts.all(|word| is_plain_script(&word.text))
}

fn is_plain_script(script: &str) -> bool {
    let replaces = script.strip_prefix('s').and_then(|rest| {
        let mark = rest
            .chars()
            .next()
            .filter(|c| !c.is_alphanumeric() && !c.is_whitespace() && *c != '\\')?;
        let parts: Vec<&str> = rest[mark.len_utf8()..].split(mark).collect();
        let flags = parts.get(2)?;
        Some(
            parts.len() == 3
                && !script.contains('\n')
                && flags.chars().all(|c| "gpiI0123456789".contains(c)),
        )
    });
    replaces.unwrap_or_else(|| {
        !script.is_empty()
            && script
                .chars()
                .all(|c| c.is_ascii_digit() || ",$!pdq=".contains(c))
    })
}
