//! What people read first.

use crate::program::Program;

async fn shown(args: &[&str]) -> String {
    let mut program = Program::new("http://127.0.0.1:8750");
    program = program.without_token();
    let run = program.run(args).await;
    assert_eq!(run.code, 0, "{}", run.stderr);
    // Wrapping leaves spaces at the ends of lines.
    run.text()
        .lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

#[tokio::test]
async fn the_overview() {
    let text = shown(&["-h"]).await;
    let commands = text.split("Options:").next().unwrap();
    insta::assert_snapshot!(commands, @"
    Boxes with an agent in them, and the log that tells what happened

    Usage: cocoonbox [OPTIONS] <COMMAND>

    Commands:
      up           Start an api on this host and log in
      down         Stop the api that runs on this host
      status       Show the api, who you are and your boxes
      doctor       Say what is wrong with the installation on this host, and what to do
      login        Keep a token for an api
      logout       Forget the token for this api
      whoami       Show whose token is in use
      console      Sign a browser in to the console
      token        Issue, list and revoke tokens
      passkey      List and remove passkeys
      user         Create, list and delete users
      ensure       Make a box, or wake it
      boxes        List your boxes
      watch        Watch your boxes change
      hibernate    Put a box to sleep
      delete       Delete a box and everything in it
      fork         Make a box out of another, as it is or as it was
      box          Show a box, and choose its models
      save         Save the files of a box
      snapshots    List the saved moments of a box's files, newest first, and say which are kept
      files        Look into saved moments of a box's files, and give them back
      send         Give an agent something to do and watch it work
      cancel       Ask an agent to stop its turn
      agent        List, make and set up agents, answer them, and go back in their conversations
      routine      Send prompts to boxes by the clock
      transcript   Read what was said and done
      exec         Run a command in a box
      attach       Follow a command that runs or ran
      screen       Show a box's screen to a VNC viewer
      control      Take a display over from the agents, and hand it back
      share        Let others look at a box's screen, by links
      events       Follow the events of a box or of your account
      erase        Erase content from a log of yours
      audit        Show what happened in your account, oldest first
      usage        Show what your boxes used of the models
      budget       Limit what is spent on models
      replay       Read, check and replay the logs of this host
      log          Move the logs of this host to another store
      capsule      Save folders into a store, and give them back
      checkpoints  Show the newest signed checkpoint of each of your logs, or keep them
      keys         Show and rotate the keys that sign checkpoints
      completions  Print a completion script for a shell
      version      Show the version
      help         Explain a command or a topic
    ");
}

#[tokio::test]
async fn every_command_has_help_with_an_example() {
    let text = shown(&["-h"]).await;
    let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names: Vec<&str> = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        let help = shown(&["help", name]).await;
        let groups = [
            "token", "passkey", "user", "agent", "box", "control", "share", "budget", "files",
            "replay", "version",
        ];
        assert!(
            help.contains("Examples:") || groups.contains(&name),
            "{help}"
        );
        assert_eq!(help, shown(&[name, "--help"]).await);
    }
}

#[tokio::test]
async fn the_help_of_exec() {
    let text = shown(&["help", "exec"]).await;
    let own = text.split("Common options:").next().unwrap();
    insta::assert_snapshot!(own, @"
    Run a command in a box

    The command runs in /workspace as the box's user. Its output comes to ours, and its exit code
    becomes ours: 128 + signal if a signal ended it, 124 if its time was up. Arguments are passed as
    they are; use `bash -c` for a shell.

    The output is in the box's log. So when the connection breaks the command goes on, and what it
    printed meanwhile is shown once we are back; what is not in the log is named on standard error. With
    --pipe the bytes go raw both ways and are not logged, and the command ends with the connection.

    With --tty it runs at a terminal, as a shell or an editor wants to: every key goes to it, Ctrl-C
    too. Ctrl-] leaves, and the command goes on; `attach --tty` comes back.

    Ctrl-C interrupts the command; a second one leaves. A stream that ends without the command's end is
    exit code 6, never success.

    Usage: cocoonbox exec [OPTIONS] <COMMAND>...

    Arguments:
      <COMMAND>...
              The command and its arguments

    Options:
      -b, --box <BOX>
              The box, by name or id

              [env: COCOONBOX_BOX=]
              [default: main]

          --timeout <TIME>
              End it, and everything it started, after this long

          --cwd <DIR>
              Directory to run it in [default: /workspace]

      -e, --env <NAME=VALUE>
              Set a variable of its environment; may be given again

          --pipe
              Pass standard input, and log no bytes

      -t, --tty
              Run it at a terminal: ours, as long as we are there

          --detach
              Only start it; print its id and the key to attach from

      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[tokio::test]
async fn the_help_of_send() {
    let text = shown(&["help", "send"]).await;
    let own = text.split("Common options:").next().unwrap();
    insta::assert_snapshot!(own, @"
    Give an agent something to do and watch it work

    The model's words go to standard output as they come; tool calls and what became of them go to
    standard error. Ends when the turn that answers the prompt ends: 0 if it is done, 7 if not. A box
    that sleeps is woken first. When the connection breaks, it goes on from the last event it saw.

    Options stand before the prompt.

    Ctrl-C asks the agent to stop and waits for it; a second Ctrl-C leaves at once, and the agent works
    on or stops by itself. At a terminal, a tool call that needs an approval is asked about (`y` allows
    it once, `a` for the conversation, anything else refuses it and is told to the agent), and so is
    what the agent itself asks.

    Usage: cocoonbox send [OPTIONS] <PROMPT>...

    Arguments:
      <PROMPT>...
              What to do; `-` reads it from standard input

    Options:
      -b, --box <BOX>
              The box, by name or id

              [env: COCOONBOX_BOX=]
              [default: main]

      -a, --agent <AGENT>
              The agent, by name or id

              [default: main]

          --steer
              Tell the turn under way, at its next model call, instead of waiting for its end

          --image <FILE>
              Show this picture with it: PNG, JPEG, GIF or WebP, at most 4 MiB; may be given again

          --no-follow
              Only hand it over; print the key to follow from

      -v, --verbose
              Show what the agent's commands print while they run

      -h, --help
              Print help (see a summary with '-h')
    ");
}

#[tokio::test]
async fn topics() {
    let text = shown(&["help", "exit-codes"]).await;
    assert!(
        text.contains("6    a stream broke off before its end"),
        "{text}"
    );
    assert!(
        shown(&["help", "environment"])
            .await
            .contains("COCOONBOX_TOKEN")
    );
    assert!(
        shown(&["help", "locations"])
            .await
            .contains("credentials.toml")
    );
}

#[tokio::test]
async fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let script = shown(&["completions", shell]).await;
        assert!(script.contains("transcript"), "{shell}");
    }
}
