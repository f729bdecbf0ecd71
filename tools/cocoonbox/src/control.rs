//! Taking a display over, and handing it back.

use std::time::Duration;

use cocoonbox_proto::{
    agent::v1::{
        ControlState, ReleaseControlRequest, RenewControlRequest, ShowControlRequest,
        TakeControlRequest,
    },
    json,
};

use crate::{
    cli::screen::{Control, Display},
    client::{Client, Control as ControlCalls, repeat, request},
    context::Context,
    exit::Exit,
    failure::Failure,
    interrupt::Interrupts,
    target, text,
};

/// Renewed this often by who holds on; the shortest lease lasts 5 s.
const HOLD: Duration = Duration::from_secs(2);

pub async fn control(ctx: &mut Context, command: Control) -> Result<Exit, Failure> {
    let client = ctx.client().await?;
    match command {
        Control::Take {
            target,
            idle,
            steal,
            hold,
        } => {
            let calls = calls(&client, &target).await?;
            let mut interrupts = Interrupts::catch()?;
            let lease = Lease::take(calls, target.display, "command line", idle, steal).await?;
            show(ctx, &lease.state)?;
            if hold {
                ctx.out.note("holding on; Ctrl-C hands it back");
                let held = tokio::select! {
                    failure = lease.hold() => Err(failure),
                    _ = interrupts.next() => Ok(()),
                };
                held?;
                let state = lease.release("").await?;
                show(ctx, &state)?;
            }
        }
        Control::Release { target, note } => {
            let calls = calls(&client, &target).await?;
            let call = ReleaseControlRequest {
                display: target.display,
                lease_id: String::new(),
                note,
            };
            let state = repeat(|| {
                let (mut calls, call) = (calls.clone(), request(call.clone()));
                async move { calls.release(call).await }
            })
            .await?;
            show(ctx, &state)?;
        }
        Control::Show { target } => {
            let calls = calls(&client, &target).await?;
            let display = target.display;
            let state = repeat(|| {
                let mut calls = calls.clone();
                async move { calls.show(request(ShowControlRequest { display })).await }
            })
            .await?;
            show(ctx, &state)?;
        }
    }
    Ok(Exit::Ok)
}

/// Control of a display that we have.
pub(crate) struct Lease {
    calls: ControlCalls,
    display: u32,
    pub(crate) id: String,
    pub(crate) state: ControlState,
}

impl Lease {
    pub(crate) async fn take(
        calls: ControlCalls,
        display: u32,
        label: &str,
        idle: Duration,
        steal: bool,
    ) -> Result<Self, Failure> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let call = TakeControlRequest {
            display,
            lease_id: id.clone(),
            label: label.to_owned(),
            idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
            steal,
        };
        // With its own id, so it may be repeated.
        let state = repeat(|| {
            let (mut calls, call) = (calls.clone(), request(call.clone()));
            async move { calls.take(call).await }
        })
        .await?;
        Ok(Self {
            calls,
            display,
            id,
            state,
        })
    }

    /// Keeps it, as if there were input all the time. Returns why that ended.
    async fn hold(&self) -> Failure {
        loop {
            tokio::time::sleep(HOLD).await;
            let call = RenewControlRequest {
                display: self.display,
                lease_id: self.id.clone(),
            };
            let renewed = repeat(|| {
                let (mut calls, call) = (self.calls.clone(), request(call.clone()));
                async move { calls.renew(call).await }
            });
            if let Err(failure) = renewed.await {
                return failure;
            }
        }
    }

    async fn release(mut self, note: &str) -> Result<ControlState, Failure> {
        let call = ReleaseControlRequest {
            display: self.display,
            lease_id: self.id,
            note: note.to_owned(),
        };
        Ok(self.calls.release(request(call)).await?.into_inner())
    }
}

async fn calls(client: &Client, target: &Display) -> Result<ControlCalls, Failure> {
    let found = target::find(client, &target.name).await?;
    client.control(&found.id)
}

fn show(ctx: &mut Context, state: &ControlState) -> Result<(), Failure> {
    let value = json::render_message("cocoonbox.agent.v1.ControlState", state);
    ctx.out.answer(&value.unwrap_or_default(), words(state))
}

/// Who drives, in words.
fn words(state: &ControlState) -> String {
    match &state.holder {
        Some(holder) => format!(
            "{} has control of display {} until {}",
            text::plain(&holder.label),
            state.display,
            text::moment(holder.until_ms),
        ),
        None => format!("agents have control of display {}", state.display),
    }
}

#[cfg(test)]
mod tests {
    use cocoonbox_proto::agent::v1::ControlHolder;

    use super::*;

    #[test]
    fn who_drives_is_told_in_a_line() {
        let mut state = ControlState {
            display: 1,
            holder: Some(ControlHolder {
                user_id: "u1".into(),
                label: "ada (a\u{1b}b)".into(),
                until_ms: 1_795_996_800_000,
            }),
            fence: 3,
        };
        let held = words(&state);
        assert!(
            held.starts_with("ada (a�b) has control of display 1 until 2026-11-30"),
            "{held}"
        );
        state.holder = None;
        assert_eq!(words(&state), "agents have control of display 1");
    }
}
