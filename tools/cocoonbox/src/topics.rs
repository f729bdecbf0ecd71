//! Help, completions and what is not about one command.

use clap::CommandFactory;

use crate::{
    cli::{
        Cli,
        users::{Completions, Help},
    },
    exit::Exit,
    failure::Failure,
    output::Out,
};

const EXIT_CODES: &str = "\
Exit codes

  0    it is done
  1    it failed
  2    the command line or a value in it is wrong
  3    there is no such box, agent, command or token
  4    refused: not logged in, or not allowed
  5    the api or the box does not answer, or not in time
  6    a stream broke off before its end; what became of the rest is not known
  7    the turn ended, but it is not done: failed, refused, cancelled or at a limit
  130  left by Ctrl-C
  141  whoever read our output closed it

`exec` and `attach` give the command's own code instead: 128 + signal if a signal ended it, 124 if its
time was up, 127 if it could not be started. Codes 1 to 6 are then ours only if a line `error: …` is on
standard error; with --json that line is an object with `exit_code` in it.";

const ENVIRONMENT: &str = "\
Environment

  COCOONBOX_API       the api, like --api
  COCOONBOX_BOX       the box, like --box
  COCOONBOX_DATA_DIR  data of an api on this host, like --data-dir
  COCOONBOX_IMAGE     image for `up`, like --image
  COCOONBOX_AGENT     agent program for `up`, like --agent
  COCOONBOX_STORE     where `up` keeps and `replay` reads logs: postgres://USER@HOST/DATABASE or sqlite:DIR
  COCOONBOX_STORE_FILE  a file with that in it
  COCOONBOX_TOKEN     a token to use in place of the one that is kept
  XDG_CONFIG_HOME     where credentials are kept [~/.config]
  XDG_DATA_HOME       where an api keeps its data [~/.local/share]";

const LOCATIONS: &str = "\
Locations

  $XDG_CONFIG_HOME/cocoonbox/credentials.toml  a token for each api, only for you (0600)
  DATA/run/api.sock                            the api's socket on its own host
  DATA/run/api.pid, DATA/run/api.log           the api that `up` started, and what it says
  DATA/log.db, DATA/keys.db                    the logs and their keys, which `replay` reads

DATA is --data-dir, else $XDG_DATA_HOME/cocoonbox.";

pub fn help(out: &mut Out, args: Help) -> Result<Exit, Failure> {
    let topic = match args.words.as_slice() {
        [word] => topic(word),
        _ => None,
    };
    let text = match topic {
        Some(text) => text.to_owned(),
        None => command_help(&args.words)?,
    };
    out.line(text.trim_end())?;
    Ok(Exit::Ok)
}

pub fn completions(out: &mut Out, args: Completions) -> Result<Exit, Failure> {
    // Into memory first: the generator does not survive a closed pipe.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "cocoonbox", &mut script);
    out.bytes(&script)?;
    Ok(Exit::Ok)
}

fn topic(word: &str) -> Option<&'static str> {
    match word {
        "exit-codes" => Some(EXIT_CODES),
        "environment" => Some(ENVIRONMENT),
        "locations" => Some(LOCATIONS),
        _ => None,
    }
}

fn command_help(words: &[String]) -> Result<String, Failure> {
    let mut root = Cli::command();
    root.build();
    let mut command = &mut root;
    for word in words {
        command = command.find_subcommand_mut(word).ok_or_else(|| {
            Failure::usage(format!(
                "there is no command or topic `{}`",
                words.join(" ")
            ))
            .advise(
                "`cocoonbox help` lists the commands; topics: exit-codes, environment, locations",
            )
        })?;
    }
    Ok(command.render_long_help().to_string())
}
