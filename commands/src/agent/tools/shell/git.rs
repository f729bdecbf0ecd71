//! What `git` does.

use cocoonbox_proto::log::v1::Risk;

use super::paths_written;
use crate::agent::tools::text::Word;

pub(super) fn risk(args: &[Word], leaves: bool) -> Risk {
    let mut at = 0;
    let mut least = Risk::Read;
    // Options of git itself: a setting may name a program, a folder may be anywhere.
    while let Some(word) = args.get(at).filter(|word| word.text.starts_with('-')) {
        match word.text.as_str() {
            "-C" | "--git-dir" | "--work-tree" => {
                let folder = args
                    .get(at + 1)
                    .map(std::slice::from_ref)
                    .unwrap_or_default();
                least = least.max(paths_written(folder, leaves).max(Risk::Read));
                at += 2;
            }
            "-c" | "--config-env" | "--exec-path" => {
                least = Risk::NetworkWrite;
                at += 2;
            }
            "--no-pager" | "-P" | "--version" | "--help" => at += 1,
            _ => {
                least = Risk::NetworkWrite;
                at += 1;
            }
        }
    }
    let Some(command) = args.get(at) else {
        return least;
    };
    if command.expanded {
        return Risk::Destructive;
    }
    let own = of_command(&command.text, &args[at + 1..], leaves);
    // Reading somewhere else is still reading.
    if own == Risk::Read && least < Risk::NetworkWrite {
        return Risk::Read;
    }
    own.max(least)
}

fn of_command(command: &str, args: &[Word], leaves: bool) -> Risk {
    let has = |flags: &[&str]| args.iter().any(|word| flags.contains(&word.text.as_str()));
    let short = |flag: char| {
        args.iter().any(|word| {
            word.text.starts_with('-') && !word.text.starts_with("--") && word.text.contains(flag)
        })
    };
    let begins = |parts: &[&str]| {
        args.iter()
            .any(|word| parts.iter().any(|part| word.text.starts_with(part)))
    };
    let is_unknown = args
        .iter()
        .any(|word| word.expanded && word.text.contains('$'));
    match command {
        // An option may name a program that is run, or a file that is written.
        "status" | "log" | "diff" | "show" | "blame" | "rev-parse" | "ls-files" | "ls-tree"
        | "describe" | "shortlog" | "grep" | "cat-file" | "rev-list" | "merge-base"
        | "name-rev" | "version" | "help" | "show-ref" | "for-each-ref" | "ls-remote" => {
            if begins(&[
                "--output",
                "--open-files",
                "--ext-diff",
                "--textconv",
                "--upload-pack",
                "-O",
            ]) {
                Risk::NetworkWrite
            } else {
                Risk::Read
            }
        }
        "push" => {
            let forces = begins(&["--force", "--mirror", "--delete", "--prune", "+", ":"])
                || short('f')
                || short('d');
            if forces || is_unknown {
                Risk::Destructive
            } else {
                Risk::NetworkWrite
            }
        }
        "reset" if begins(&["--hard", "--merge", "--keep"]) || is_unknown => Risk::Destructive,
        "clean" | "filter-branch" | "filter-repo" | "update-ref" | "replace" | "prune" => {
            Risk::Destructive
        }
        "checkout" | "switch"
            if has(&["--", ".", "--discard-changes"])
                || begins(&["--force"])
                || short('f')
                || is_unknown =>
        {
            Risk::Destructive
        }
        "restore" if !has(&["--staged", "-S"]) || has(&["--worktree", "-W"]) => Risk::Destructive,
        "branch" | "tag"
            if begins(&["--delete", "--force"])
                || short('D')
                || short('d')
                || short('f')
                || is_unknown =>
        {
            Risk::Destructive
        }
        "branch" | "tag" | "remote" if args.iter().all(|word| word.text.starts_with('-')) => {
            Risk::Read
        }
        "stash" if has(&["drop", "clear"]) || is_unknown => Risk::Destructive,
        "stash" if has(&["list", "show"]) => Risk::Read,
        "reflog" if has(&["expire", "delete"]) || is_unknown => Risk::Destructive,
        "reflog" => Risk::Read,
        "gc" if begins(&["--prune"]) => Risk::Destructive,
        "worktree" if has(&["remove", "prune"]) || is_unknown => Risk::Destructive,
        "config" if has(&["--get", "--get-all", "--list", "-l", "list", "get"]) => Risk::Read,
        "rebase" if begins(&["--exec", "-x"]) || is_unknown => Risk::Destructive,
        "add" | "commit" | "init" | "clone" | "fetch" | "pull" | "merge" | "rebase"
        | "checkout" | "switch" | "restore" | "branch" | "tag" | "stash" | "cherry-pick"
        | "revert" | "mv" | "rm" | "apply" | "am" | "reset" | "worktree" | "remote" | "gc"
        | "notes" | "format-patch" | "archive" | "bundle" => {
            if begins(&["--upload-pack", "--template", "ext::"]) {
                Risk::NetworkWrite
            } else {
                Risk::WriteWorkspace.max(paths_written(args, leaves))
            }
        }
        // A setting or a submodule may name a program, and so may what is not known here.
        _ => Risk::NetworkWrite,
    }
}
