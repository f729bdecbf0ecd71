//! How much harm a shell's text can do, read from its words.
//!
//! It is a guess that errs to one side: what is not understood counts as the greater harm. What runs
//! inside of something else (`sh -c`, `env`, `xargs`, `$(…)`) counts as if it stood there alone, or more.

mod git;
mod programs;

use cocoonbox_proto::log::v1::Risk;

use super::{
    place::{self, Place},
    text::{self, DEPTH_MAX, Word},
};
use programs::Kind;

/// Longer texts are not looked at: they count as not understood.
const TEXT_BYTES_MAX: usize = 128 * 1024;

/// Returns how much harm a text can do that a shell runs in the workspace.
pub(super) fn risk(text: &str) -> Risk {
    of_text(text, 0)
}

fn of_text(text: &str, depth: usize) -> Risk {
    if depth > DEPTH_MAX || text.len() > TEXT_BYTES_MAX {
        return Risk::Destructive;
    }
    let read = text::read(text);
    let leaves = read.commands.iter().any(|words| leaves(words));
    let mut risk = if read.opaque {
        Risk::Destructive
    } else {
        Risk::Read
    };
    for target in &read.targets {
        risk = risk.max(written(target, leaves));
    }
    for nested in &read.nested {
        risk = risk.max(of_text(nested, depth + 1));
    }
    for words in &read.commands {
        risk = risk.max(of_command(words, leaves, depth));
    }
    risk
}

/// Whether a command goes somewhere else, so that a relative path is anywhere.
fn leaves(words: &[Word]) -> bool {
    let words = without_keywords(words);
    words
        .first()
        .is_some_and(|word| matches!(word.text.as_str(), "cd" | "pushd" | "popd" | "chroot"))
        && words[1..]
            .first()
            .is_none_or(|to| place::of(to, false) != Place::Workspace)
}

fn without_keywords(words: &[Word]) -> &[Word] {
    const KEYWORDS: &[&str] = &[
        "if", "then", "else", "elif", "do", "while", "until", "!", "time", "{", "coproc",
    ];
    let count = words
        .iter()
        .take_while(|word| KEYWORDS.contains(&word.text.as_str()))
        .count();
    &words[count..]
}

fn is_assignment(word: &Word) -> bool {
    word.text.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        name.starts_with(|c: char| c.is_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Variables that make a program run something else.
fn is_loader(word: &Word) -> bool {
    let name = word.text.split('=').next().unwrap_or_default();
    name.starts_with("LD_")
        || name.starts_with("GIT_")
        || name.starts_with("BASH_")
        || name.ends_with("PATH")
        || name.ends_with("PAGER")
        || name.ends_with("EDITOR")
        || matches!(
            name,
            "ENV" | "IFS" | "SHELL" | "PROMPT_COMMAND" | "NODE_OPTIONS" | "PERL5OPT"
        )
}

fn of_command(words: &[Word], leaves: bool, depth: usize) -> Risk {
    let words = without_keywords(words);
    let assigned = words.iter().take_while(|word| is_assignment(word)).count();
    let least = if words[..assigned].iter().any(is_loader) {
        Risk::NetworkWrite
    } else {
        Risk::Read
    };
    let words = &words[assigned..];
    let Some((program, args)) = words.split_first() else {
        return least;
    };
    least.max(of_program(program, args, leaves, depth))
}

fn of_program(program: &Word, args: &[Word], leaves: bool, depth: usize) -> Risk {
    if depth > DEPTH_MAX || (program.expanded && !matches!(program.text.as_str(), "[" | "[[" | "}"))
    {
        return Risk::Destructive;
    }
    let Some(name) = name(&program.text) else {
        // A file of somebody's: it may do anything that a tool of an unknown name may.
        return Risk::NetworkWrite.max(inside(args, leaves, depth));
    };
    match programs::kind(name) {
        Kind::Reads => Risk::Read,
        Kind::Writes => Risk::WriteWorkspace.max(paths_written(args, leaves)),
        Kind::WritesOutside => Risk::WriteOutside,
        Kind::Builds => builds(args, leaves),
        Kind::Network | Kind::Unknown => Risk::NetworkWrite.max(inside(args, leaves, depth)),
        Kind::Destroys => Risk::Destructive,
        Kind::Pays => Risk::Money,
        Kind::Wraps => wrapped(args, leaves, depth).max(programs::least_of_wrapper(name)),
        Kind::Shell => of_shell(args, depth),
        Kind::Interprets => programs::interpreted(name, args),
        Kind::Special => special(name, args, leaves, depth),
    }
}

/// Returns the name of a program; `None` for a file that is not where programs are.
fn name(program: &str) -> Option<&str> {
    match program.rsplit_once('/') {
        None => Some(program),
        Some((folder, name)) => {
            const FOLDERS: &[&str] = &[
                "/bin",
                "/sbin",
                "/usr/bin",
                "/usr/sbin",
                "/usr/local/bin",
                "/usr/local/sbin",
            ];
            FOLDERS.contains(&folder).then_some(name)
        }
    }
}

/// What another program is given to run: its first word is found past options and what they are given.
fn wrapped(args: &[Word], leaves: bool, depth: usize) -> Risk {
    let is_own = |word: &&Word| {
        let text = word.text.as_str();
        text.starts_with('-')
            || is_assignment(word)
            || text.starts_with(|c: char| c.is_ascii_digit())
            || text == "{}"
    };
    let own = args.iter().take_while(is_own).count();
    let first = match args[own..].split_first() {
        Some((program, rest)) => of_program(program, rest, leaves, depth + 1),
        None => Risk::Read,
    };
    let mut least = Risk::Read;
    for word in &args[..own] {
        if is_assignment(word) && is_loader(word) {
            least = least.max(Risk::NetworkWrite);
        }
        // `watch 'A=$(…)'`, `env -S'…'`: it may be what runs.
        if is_text(word) {
            least = least.max(of_text(&word.text, depth + 1));
        }
    }
    first.max(least).max(inside(args, leaves, depth))
}

fn is_text(word: &Word) -> bool {
    let is_mark = |c: char| c.is_whitespace() || ";|&<>`$".contains(c);
    // Between quotes, these wait for another shell.
    let is_hidden = |c: char| "{}*?[]()\\'\"".contains(c);
    word.text.contains(is_mark) || (!word.expanded && word.text.contains(is_hidden))
}

/// Looks for commands in words of which it is not known which of them run.
fn inside(args: &[Word], leaves: bool, depth: usize) -> Risk {
    let mut risk = Risk::Read;
    for (index, word) in args.iter().enumerate() {
        if is_text(word) {
            // Words of a person are not commands: only what is worse than any unknown one counts.
            risk = risk.max(worse(of_text(&word.text, depth + 1)));
        }
        if word.expanded && word.text.contains('{') {
            // `{rm,-rf,a}` is three words.
            let parts = word
                .text
                .split(['{', ',', '}'])
                .filter(|part| !part.is_empty());
            let parts: Vec<Word> = parts.map(Word::plain).collect();
            if let Some((program, rest)) = parts.split_first() {
                risk = risk.max(worse(of_program(program, rest, leaves, depth + 1)));
            }
        }
        if name(&word.text).is_some_and(|name| programs::kind(name) != Kind::Unknown) {
            let as_program = Word::plain(&word.text);
            risk = risk.max(worse(of_program(
                &as_program,
                &args[index + 1..],
                leaves,
                depth + 1,
            )));
        }
    }
    risk
}

fn worse(risk: Risk) -> Risk {
    if risk > Risk::NetworkWrite {
        risk
    } else {
        Risk::Read
    }
}

/// `sh`, `bash` and their like.
fn of_shell(args: &[Word], depth: usize) -> Risk {
    let takes_text = |word: &Word| {
        word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains('c')
    };
    if let Some(at) = args.iter().position(takes_text) {
        let mut texts = args[at + 1..]
            .iter()
            .skip_while(|word| word.text.starts_with(['-', '+']));
        return match texts.next() {
            Some(word) if !word.expanded => {
                // What comes behind are its arguments: they may be anything in it.
                let rest: Vec<Word> = texts.cloned().collect();
                of_text(&word.text, depth + 1).max(inside(&rest, true, depth))
            }
            _ => Risk::Destructive,
        };
    }
    match args.iter().find(|word| !word.text.starts_with('-')) {
        Some(file) if !file.expanded => Risk::NetworkWrite.max(inside(args, true, depth)),
        // It reads what it is to do from elsewhere.
        _ if args.iter().any(|word| word.text == "--version") => Risk::Read,
        _ => Risk::Destructive,
    }
}

fn builds(args: &[Word], leaves: bool) -> Risk {
    const SENT: &[&str] = &[
        "publish", "deploy", "release", "upload", "login", "push", "yank", "owner",
    ];
    const RUN: &[&str] = &["exec", "dlx", "x", "create", "init"];
    // What is to be done stands first; a path is of what it is done to.
    let mut told = args
        .iter()
        .filter(|word| !word.text.starts_with('-') && !word.text.contains('/'))
        .map(|word| word.text.as_str())
        .take(2);
    let runs = told
        .clone()
        .next()
        .is_some_and(|first| RUN.contains(&first));
    let sends = told.any(|word| {
        word.split([':', '-', '.', '_'])
            .any(|part| SENT.contains(&part))
    });
    if runs || sends {
        return Risk::NetworkWrite;
    }
    Risk::WriteWorkspace.max(paths_written(args, leaves))
}

/// Takes every argument that can be a path as one that is written.
fn paths_written(args: &[Word], leaves: bool) -> Risk {
    args.iter()
        .map(|word| written(word, leaves))
        .max()
        .unwrap_or(Risk::Read)
}

fn written(word: &Word, leaves: bool) -> Risk {
    match place::of(word, leaves) {
        Place::Nowhere => Risk::Read,
        Place::Workspace => Risk::WriteWorkspace,
        Place::Outside => Risk::WriteOutside,
        Place::Device => Risk::Destructive,
    }
}

/// Programs whose arguments say what they do.
fn special(name: &str, args: &[Word], leaves: bool, depth: usize) -> Risk {
    let has = |flags: &[&str]| args.iter().any(|word| flags.contains(&word.text.as_str()));
    let starts = |parts: &[&str]| {
        args.iter()
            .any(|word| parts.iter().any(|part| word.text.starts_with(part)))
    };
    match name {
        "git" => git::risk(args, leaves),
        "rm" | "unlink" => {
            let is_wide = |word: &Word| {
                word.expanded
                    || place::of(word, leaves) != Place::Workspace
                    || (word.text.starts_with('-') && word.text != "-i" && word.text != "-v")
            };
            if args.is_empty() || args.iter().any(is_wide) {
                Risk::Destructive
            } else {
                Risk::WriteWorkspace
            }
        }
        "find" | "fd" => {
            if has(&["-delete"]) {
                return Risk::Destructive;
            }
            let runs = |word: &Word| {
                word.text.starts_with("-exec")
                    || word.text.starts_with("-ok")
                    || matches!(word.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch")
            };
            let mut risk = if starts(&["-fprint", "-fls"]) {
                Risk::WriteOutside
            } else {
                Risk::Read
            };
            for (at, _) in args.iter().enumerate().filter(|(_, word)| runs(word)) {
                risk = risk.max(with_unknown(&args[at + 1..], leaves, depth));
            }
            risk
        }
        "xargs" | "parallel" => with_unknown(args, leaves, depth),
        "eval" => {
            if args.iter().any(|word| word.expanded) {
                return Risk::Destructive;
            }
            let texts: Vec<&str> = args.iter().map(|word| word.text.as_str()).collect();
            of_text(&texts.join(" "), depth + 1)
        }
        "trap" => args
            .first()
            .map_or(Risk::Read, |word| of_text(&word.text, depth + 1)),
        "source" | "." => {
            if args.first().is_none_or(|word| word.expanded) {
                Risk::Destructive
            } else {
                Risk::NetworkWrite
            }
        }
        "curl" => programs::curl(args, leaves),
        "wget" => {
            if starts(&["--post", "--method", "--body", "--use-askpass"]) {
                Risk::NetworkWrite
            } else {
                Risk::WriteWorkspace.max(paths_written(args, leaves))
            }
        }
        "dd" => {
            if starts(&["of="]) {
                Risk::Destructive
            } else {
                Risk::Read
            }
        }
        "kill" | "pkill" | "killall" => {
            if has(&["-l", "-L", "-0", "--list"]) && args.iter().all(|word| !word.expanded) {
                Risk::Read
            } else {
                Risk::Destructive
            }
        }
        "sed" => {
            if programs::is_plain_sed(args) {
                if starts(&["-i", "--in-place"]) || starts(&["-ni", "-Ei", "-ri"]) {
                    Risk::WriteWorkspace.max(paths_written(args, leaves))
                } else {
                    Risk::Read
                }
            } else {
                Risk::NetworkWrite.max(inside(args, leaves, depth))
            }
        }
        "sort" | "yq" | "tree" | "date" => {
            if starts(&[
                "-o",
                "--output",
                "-i",
                "--in-place",
                "-s",
                "--set",
                "--compress-program",
            ]) {
                Risk::WriteOutside
            } else {
                Risk::Read
            }
        }
        "tar" => {
            if args
                .iter()
                .any(|word| word.text.contains("exec") || word.text.contains("command"))
                || has(&["-I", "-F"])
            {
                Risk::NetworkWrite.max(inside(args, leaves, depth))
            } else {
                Risk::WriteWorkspace.max(paths_written(args, leaves))
            }
        }
        "rsync" => {
            if starts(&["--delete", "--remove-source"]) {
                Risk::Destructive
            } else if args.iter().any(|word| word.text.contains(':')) || starts(&["-e", "--rsh"]) {
                Risk::NetworkWrite.max(inside(args, leaves, depth))
            } else {
                Risk::WriteWorkspace.max(paths_written(args, leaves))
            }
        }
        // Not reached: every special name is above.
        _ => Risk::Destructive,
    }
}

/// A command that gets arguments from elsewhere.
fn with_unknown(args: &[Word], leaves: bool, depth: usize) -> Risk {
    let unknown = Word {
        text: "$".to_owned(),
        expanded: true,
    };
    let end = args
        .iter()
        .position(|word| word.text == ";")
        .unwrap_or(args.len());
    let mut words = args[..end].to_vec();
    if words.iter().all(|word| word.text.starts_with('-')) {
        return Risk::Read;
    }
    words.push(unknown);
    wrapped(&words, leaves, depth)
}
