//! Sending a prompt and watching the turn that answers it.

use std::{collections::VecDeque, io::Read};

use cocoonbox_proto::{
    agent::v1::{AgentRef, RespondRequest, SendAccepted, SendRequest, agents_client::AgentsClient},
    json,
    log::v1::event_or_heartbeat::Item,
};

use crate::{
    cli::talk::Send,
    client::{Client, Wire, repeat, request},
    context::Context,
    events,
    exit::Exit,
    failure::Failure,
    follow::{Ending, Follow},
    interrupt::Interrupts,
    prompt::Answers,
    target,
    turn::{self, Piece, Turn},
};

/// What the contract takes.
const PROMPT_BYTES_MAX: u64 = 200 * 1024;

pub async fn send(ctx: &mut Context, args: Send) -> Result<Exit, Failure> {
    let prompt = read_prompt(&args.prompt)?;
    let client = ctx.client().await?;
    let found = target::awake(ctx, &client, &args.to.target.box_name).await?;
    let agent_id = target::agent_id(&client, &found.id, &args.to.agent).await?;
    let call = SendRequest {
        agent_id,
        prompt,
        client_nonce: uuid::Uuid::new_v4().to_string(),
    };
    let agents = client.agents(&found.id)?;
    let accepted = repeat(|| {
        let (mut agents, call) = (agents.clone(), request(call.clone()));
        async move { agents.send(call).await }
    })
    .await?;
    if args.no_follow || ctx.out.json {
        let value = json::render_message("cocoonbox.agent.v1.SendAccepted", &accepted);
        let line = format!("{}\t{}", accepted.prompt_id, accepted.offset_key);
        ctx.out.answer(&value.unwrap_or_default(), line)?;
    }
    if args.no_follow {
        return Ok(Exit::Ok);
    }
    let watch = Watch {
        turn: Turn::new(&accepted.agent_id, &accepted.prompt_id, args.verbose),
        agents,
        agent_id: accepted.agent_id.clone(),
        box_name: found.name.clone(),
        asked: VecDeque::new(),
        open: None,
        answers: None,
    };
    watch
        .follow(ctx, &client, &found.id, &accepted, args.verbose)
        .await
}

/// The turn, and what a person is asked meanwhile.
struct Watch {
    turn: Turn,
    agents: AgentsClient<Wire>,
    agent_id: String,
    box_name: String,
    /// Approvals that nobody was asked about yet.
    asked: VecDeque<(String, String)>,
    /// The one that somebody is asked about.
    open: Option<String>,
    /// Who answers, once there was something to ask.
    answers: Option<Answers>,
}

impl Watch {
    async fn follow(
        mut self,
        ctx: &mut Context,
        client: &Client,
        box_id: &str,
        accepted: &SendAccepted,
        verbose: bool,
    ) -> Result<Exit, Failure> {
        let mut streams = vec![format!("agent/{}", self.agent_id)];
        streams.extend(verbose.then(|| "exec/".to_owned()));
        let open = events::of_box(client, box_id, streams, false)?;
        let from = accepted.offset_key.clone();
        let mut events = Follow::new(open, from, Ending::Never, ctx.global.retry_for);
        let mut interrupts = Interrupts::catch()?;
        loop {
            let item = tokio::select! {
                item = events.next() => item?,
                allow = answered(self.open.is_some(), &mut self.answers) => {
                    self.respond(ctx, allow).await?;
                    continue;
                }
                count = interrupts.next() => {
                    self.interrupted(ctx, count, events.key()).await?;
                    continue;
                }
            };
            let Some(item) = item else {
                return Err(Failure::new(
                    Exit::StreamBroke,
                    "the events ended before the turn",
                ));
            };
            let Some(Item::Event(event)) = item.item else {
                continue;
            };
            if ctx.out.json {
                ctx.out.value(&events::to_json(&event))?;
            }
            for piece in self.turn.apply(&event) {
                if let Some(exit) = self.show(ctx, piece)? {
                    return Ok(exit);
                }
            }
        }
    }

    fn show(&mut self, ctx: &mut Context, piece: Piece) -> Result<Option<Exit>, Failure> {
        let quietly = ctx.out.json;
        match piece {
            Piece::Text(text) if !quietly => ctx.out.text(&text)?,
            Piece::Note(note) if !quietly => ctx.out.dim(note),
            Piece::Text(_) | Piece::Note(_) => {}
            Piece::Approval { id, call } => self.ask(ctx, id, call),
            Piece::Decided { id } => {
                self.asked.retain(|(asked, _)| *asked != id);
                // Answered elsewhere: our question has no use any more.
                self.open.take_if(|asked| *asked == id);
                self.ask_next(ctx);
            }
            Piece::Ended {
                outcome: turn::Ending::Done,
                ..
            } => return Ok(Some(Exit::Ok)),
            Piece::Ended { outcome, detail } => {
                let words = turn::ending_words(outcome);
                let message = if detail.is_empty() {
                    words.into()
                } else {
                    format!("{words}: {detail}")
                };
                return Err(Failure::new(Exit::TurnFailed, message));
            }
        }
        Ok(None)
    }

    fn ask(&mut self, ctx: &mut Context, id: String, call: String) {
        if ctx.out.stdin_is_terminal && !ctx.out.json {
            self.asked.push_back((id, call));
            self.ask_next(ctx);
        } else {
            let to = if self.box_name == "main" {
                String::new()
            } else {
                format!(" --box {}", self.box_name)
            };
            let agent = &self.agent_id;
            ctx.out.warn(format!("waiting for approval: {call}"));
            ctx.out.warn(format!(
                "  `cocoonbox respond{to} --agent {agent} --approval {id} --allow` (or --deny) answers"
            ));
        }
    }

    fn ask_next(&mut self, ctx: &mut Context) {
        if self.open.is_none()
            && let Some((id, call)) = self.asked.pop_front()
        {
            self.answers.get_or_insert_with(Answers::start).forget();
            ctx.out.ask(&format!("allow `{call}`? [y/N] "));
            self.open = Some(id);
        }
    }

    async fn respond(&mut self, ctx: &mut Context, allow: bool) -> Result<(), Failure> {
        let Some(approval_id) = self.open.take() else {
            return Ok(());
        };
        let call = RespondRequest {
            agent_id: self.agent_id.clone(),
            approval_id,
            allow,
            comment: String::new(),
        };
        // Answered by somebody else in the same moment: theirs counts, and the turn goes on.
        if let Err(status) = self.agents.respond(request(call)).await {
            ctx.out.warn(Failure::from(status).to_string());
        }
        self.ask_next(ctx);
        Ok(())
    }

    async fn interrupted(
        &mut self,
        ctx: &mut Context,
        count: u32,
        key: &str,
    ) -> Result<(), Failure> {
        if count > 1 {
            return Err(
                Failure::new(Exit::Interrupted, "left; the agent may still work")
                    .advise(format!("`cocoonbox events --from {key}` goes on from here")),
            );
        }
        ctx.out
            .note("asking the agent to stop; Ctrl-C again to leave");
        let call = AgentRef {
            agent_id: self.agent_id.clone(),
        };
        if let Err(status) = self.agents.cancel(request(call)).await {
            ctx.out.warn(Failure::from(status).to_string());
        }
        Ok(())
    }
}

/// Waits for the answer to the question that is open; for ever if none is. Cancel-safe.
async fn answered(is_open: bool, answers: &mut Option<Answers>) -> bool {
    match answers {
        Some(answers) if is_open => answers.next().await,
        _ => std::future::pending().await,
    }
}

fn read_prompt(words: &[String]) -> Result<String, Failure> {
    let prompt = if words == ["-"] {
        let mut text = String::new();
        std::io::stdin()
            .lock()
            .take(PROMPT_BYTES_MAX + 1)
            .read_to_string(&mut text)?;
        text
    } else {
        words.join(" ")
    };
    if prompt.len() as u64 > PROMPT_BYTES_MAX {
        return Err(Failure::usage("a prompt is at most 200 KiB")
            .advise("put the rest into a file in the box and name it"));
    }
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt is empty"));
    }
    Ok(prompt)
}
