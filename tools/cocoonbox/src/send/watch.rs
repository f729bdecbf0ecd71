//! Watching the turn that answers a prompt, and answering what a person is asked meanwhile.

use std::collections::VecDeque;

use cocoonbox_proto::{
    agent::v1::{AgentRef, RespondRequest, SendAccepted, agents_client::AgentsClient},
    json,
    log::v1::{Risk, event_or_heartbeat::Item},
};

use crate::{
    client::{Client, Wire, request},
    context::Context,
    events,
    exit::Exit,
    failure::Failure,
    follow::{Ending, Follow},
    interrupt::Interrupts,
    prompt::Answers,
    turn::{self, Piece, Turn},
};

/// Which prompt's turn is watched, and how.
#[derive(Clone, Debug)]
pub struct Watched {
    pub box_id: String,
    pub box_name: String,
    /// Show what commands print.
    pub verbose: bool,
    /// Only say what was accepted.
    pub no_follow: bool,
}

/// Watches until the turn ends.
pub async fn watch(
    ctx: &mut Context,
    client: &Client,
    watched: Watched,
    accepted: &SendAccepted,
) -> Result<Exit, Failure> {
    if watched.no_follow || ctx.out.json {
        let value = json::render_message("cocoonbox.agent.v1.SendAccepted", accepted);
        let line = format!("{}\t{}", accepted.prompt_id, accepted.offset_key);
        ctx.out.answer(&value.unwrap_or_default(), line)?;
    }
    if watched.no_follow {
        return Ok(Exit::Ok);
    }
    let (agent_id, verbose) = (accepted.agent_id.clone(), watched.verbose);
    let watch = Watch {
        turn: Turn::new(&agent_id, &accepted.prompt_id, verbose),
        agents: client.agents(&watched.box_id)?,
        agent_id,
        box_name: watched.box_name,
        asked: VecDeque::new(),
        open: None,
        answers: None,
    };
    watch
        .follow(ctx, client, &watched.box_id, accepted, verbose)
        .await
}

/// What a person is asked.
#[derive(Debug)]
struct Asked {
    id: String,
    /// Who asks: the agent or a subagent of it.
    agent_id: String,
    what: What,
}

#[derive(Debug)]
enum What {
    Approval {
        call: String,
        risk: Risk,
    },
    Question {
        question: String,
        choices: Vec<String>,
    },
}

/// The turn, and what a person is asked meanwhile.
struct Watch {
    turn: Turn,
    agents: AgentsClient<Wire>,
    agent_id: String,
    box_name: String,
    /// What nobody was asked yet.
    asked: VecDeque<Asked>,
    /// What somebody is asked.
    open: Option<Asked>,
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
                line = answered(self.open.is_some(), &mut self.answers) => {
                    self.respond(ctx, line).await;
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
            Piece::Approval {
                id,
                agent_id,
                call,
                risk,
            } => {
                let what = What::Approval { call, risk };
                self.ask(ctx, Asked { id, agent_id, what });
            }
            Piece::Question {
                id,
                agent_id,
                question,
                choices,
            } => {
                let what = What::Question { question, choices };
                self.ask(ctx, Asked { id, agent_id, what });
            }
            Piece::Decided { id } => {
                self.asked.retain(|asked| asked.id != id);
                // Answered elsewhere: our question has no use any more.
                self.open.take_if(|asked| asked.id == id);
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

    fn ask(&mut self, ctx: &mut Context, asked: Asked) {
        if ctx.out.stdin_is_terminal && !ctx.out.json {
            self.asked.push_back(asked);
            self.ask_next(ctx);
            return;
        }
        let to = if self.box_name == "main" {
            String::new()
        } else {
            format!(" --box {}", self.box_name)
        };
        let (agent, id) = (&asked.agent_id, &asked.id);
        match &asked.what {
            What::Approval { call, risk } => {
                let risk = risk_note(*risk);
                ctx.out.warn(format!("waiting for approval: {call}{risk}"));
                ctx.out.warn(format!(
                    "  `cocoonbox agent approve{to} {id}` (or deny) answers"
                ));
            }
            What::Question { question, choices } => {
                ctx.out.warn(format!("the agent asks: {question}"));
                for choice in choices {
                    ctx.out.warn(format!("  - {choice}"));
                }
                ctx.out.warn(format!(
                    "  `cocoonbox agent answer{to} --agent {agent} {id} ANSWER` answers"
                ));
            }
        }
    }

    fn ask_next(&mut self, ctx: &mut Context) {
        if self.open.is_some() {
            return;
        }
        let Some(asked) = self.asked.pop_front() else {
            return;
        };
        self.answers.get_or_insert_with(Answers::start).forget();
        match &asked.what {
            What::Approval { call, risk } => {
                let risk = risk_note(*risk);
                ctx.out
                    .ask(&format!("allow `{call}`{risk}? [y/a/N, or why not] "));
            }
            What::Question { question, choices } => {
                ctx.out.warn(format!("? {question}"));
                for (number, choice) in (1..).zip(choices) {
                    ctx.out.warn(format!("  {number}. {choice}"));
                }
                ctx.out.ask("> ");
            }
        }
        self.open = Some(asked);
    }

    /// Sends a line that somebody typed, or what it means that nobody can type any more.
    async fn respond(&mut self, ctx: &mut Context, line: Option<String>) {
        let Some(asked) = self.open.take() else {
            return;
        };
        let Some(answer) = answer(&asked, line.as_deref()) else {
            if line.is_some() {
                // An empty line is no answer.
                self.asked.push_front(asked);
            }
            return self.ask_next(ctx);
        };
        // Answered by somebody else in the same moment: theirs counts, and the turn goes on.
        if let Err(status) = self.agents.respond(request(answer)).await {
            ctx.out.warn(Failure::from(status).to_string());
        }
        self.ask_next(ctx);
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
async fn answered(is_open: bool, answers: &mut Option<Answers>) -> Option<String> {
    match answers {
        Some(answers) if is_open => answers.next().await,
        _ => std::future::pending().await,
    }
}

/// What is answered by a line; `None` if nothing is.
fn answer(asked: &Asked, line: Option<&str>) -> Option<RespondRequest> {
    let line = line.map(str::trim);
    let of = RespondRequest {
        agent_id: asked.agent_id.clone(),
        ..RespondRequest::default()
    };
    match &asked.what {
        What::Approval { .. } => {
            let line = line.unwrap_or_default();
            let word = line.to_ascii_lowercase();
            let is_always = matches!(word.as_str(), "a" | "always");
            let is_no = matches!(word.as_str(), "" | "n" | "no");
            let allow = is_always || matches!(word.as_str(), "y" | "yes");
            let comment = if allow || is_no { "" } else { line };
            Some(RespondRequest {
                approval_id: asked.id.clone(),
                allow,
                for_conversation: is_always,
                comment: comment.to_owned(),
                ..of
            })
        }
        What::Question { choices, .. } => {
            let line = line.filter(|line| !line.is_empty())?;
            let chosen = line.parse::<usize>().ok();
            let chosen = chosen.and_then(|number| choices.get(number.checked_sub(1)?));
            Some(RespondRequest {
                question_id: asked.id.clone(),
                answer: chosen.map_or(line, String::as_str).to_owned(),
                ..of
            })
        }
    }
}

/// Said of what is more than a write in the workspace.
fn risk_note(risk: Risk) -> &'static str {
    match risk {
        Risk::Unspecified | Risk::Read | Risk::WriteWorkspace => "",
        Risk::WriteOutside => " (writes outside of /workspace)",
        Risk::NetworkWrite => " (sends something out)",
        Risk::Destructive => " (destroys something)",
        Risk::Money => " (costs money)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(what: What, line: Option<&str>) -> Option<RespondRequest> {
        let asked = Asked {
            id: "x".into(),
            agent_id: "main".into(),
            what,
        };
        answer(&asked, line)
    }

    #[test]
    fn only_a_clear_yes_allows() {
        let approval = |line: Option<&str>| {
            let what = What::Approval {
                call: "rm".into(),
                risk: Risk::Destructive,
            };
            let answer = typed(what, line).expect("an answer");
            (answer.allow, answer.for_conversation, answer.comment)
        };
        assert_eq!(approval(Some("y\n")), (true, false, String::new()));
        assert_eq!(approval(Some("Always\n")), (true, true, String::new()));
        assert_eq!(approval(Some("\n")), (false, false, String::new()));
        assert_eq!(approval(None), (false, false, String::new()));
        let comment = "yes, but not today".to_owned();
        assert_eq!(
            approval(Some("yes, but not today")),
            (false, false, comment)
        );
    }

    #[test]
    fn a_number_chooses_and_a_text_answers() {
        let question = |line: Option<&str>| {
            let what = What::Question {
                question: "which?".into(),
                choices: vec!["red".into(), "blue".into()],
            };
            typed(what, line).map(|answer| answer.answer)
        };
        assert_eq!(question(Some("2\n")).as_deref(), Some("blue"));
        assert_eq!(question(Some("3")).as_deref(), Some("3"));
        assert_eq!(question(Some("green")).as_deref(), Some("green"));
        assert_eq!(question(Some(" \n")), None);
        assert_eq!(question(None), None);
    }
}
