//! From arguments to an exit code.

use clap::error::ErrorKind;
use serde_json::json;

use crate::{
    agent, boxes, capsule, checkpoints,
    cli::{Cli, Command},
    context::Context,
    control, doctor,
    environment::Environment,
    erase, events, exec,
    exit::Exit,
    failure::Failure,
    files, log, money,
    output::Out,
    passkeys, replay, routines, screen, send, shares, status, topics, transcript, up, users,
};

/// Runs the program with the process's own arguments, environment and outputs.
pub async fn run() -> u8 {
    let cli = match Cli::read() {
        Ok(cli) => cli,
        Err(error) => {
            // A reader that closed the pipe has seen enough of the help.
            error.print().ok();
            let wanted = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            return if wanted { Exit::Ok } else { Exit::Usage }.code();
        }
    };
    let out = Out::process(cli.global.json, cli.global.quiet);
    let mut ctx = Context {
        global: cli.global,
        environment: Environment::read(),
        out,
    };
    match command(&mut ctx, cli.command).await {
        Ok(exit) => exit.code(),
        Err(failure) => {
            ctx.out.failure(&failure);
            failure.exit.code()
        }
    }
}

async fn command(ctx: &mut Context, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Up(args) => up::up(ctx, args).await,
        Command::Down => up::down(ctx).await,
        Command::ServeDetached(args) => Err(up::serve_detached(&args)),
        Command::Status => status::status(ctx).await,
        Command::Doctor(args) => doctor::doctor(ctx, args).await,
        Command::Login(_) => users::login(ctx).await,
        Command::Logout => users::logout(ctx),
        Command::Whoami => users::whoami(ctx).await,
        Command::Console(args) => users::console(ctx, args).await,
        Command::Token(command) => users::token(ctx, command).await,
        Command::Passkey(command) => passkeys::passkey(ctx, command).await,
        Command::User(command) => users::user(ctx, command).await,
        Command::Ensure(args) => boxes::ensure(ctx, args).await,
        Command::Boxes => boxes::list(ctx).await,
        Command::Watch => boxes::watch(ctx).await,
        Command::Hibernate(args) => boxes::hibernate(ctx, args).await,
        Command::Delete(args) => boxes::delete(ctx, args).await,
        Command::Fork(args) => boxes::fork(ctx, args).await,
        Command::Box(command) => boxes::one::run(ctx, command).await,
        Command::Save(args) => files::save(ctx, args).await,
        Command::Snapshots(args) => files::snapshots(ctx, args).await,
        Command::Files(command) => files::files(ctx, command).await,
        Command::Send(args) => send::send(ctx, args).await,
        Command::Cancel(args) => agent::cancel(ctx, args).await,
        Command::Routine(command) => routines::routine(ctx, command).await,
        Command::Agent(command) => agent::agent(ctx, command).await,
        Command::Transcript(args) => transcript::transcript(ctx, args).await,
        Command::Exec(args) => exec::exec(ctx, args).await,
        Command::Attach(args) => exec::attach(ctx, args).await,
        Command::Screen(args) => screen::screen(ctx, args).await,
        Command::Control(command) => control::control(ctx, command).await,
        Command::Share(command) => shares::share(ctx, command).await,
        Command::Events(args) => events::events(ctx, args).await,
        Command::Erase(args) => erase::erase(ctx, args).await,
        Command::Audit => users::audit(ctx).await,
        Command::Usage(args) => money::usage(ctx, args).await,
        Command::Budget(command) => money::budget(ctx, command).await,
        Command::Replay(command) => replay::replay(ctx, command).await,
        Command::Capsule(command) => capsule::capsule(ctx, command).await,
        Command::Checkpoints(args) => checkpoints::checkpoints(ctx, args).await,
        Command::Keys(command) => checkpoints::keys(ctx, command).await,
        Command::Log(command) => log::log(ctx, command).await,
        Command::Completions(args) => topics::completions(&mut ctx.out, args),
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            ctx.out
                .answer(&json!({"version": version}), format!("cocoonbox {version}"))?;
            Ok(Exit::Ok)
        }
        Command::Help(args) => topics::help(&mut ctx.out, args),
    }
}
