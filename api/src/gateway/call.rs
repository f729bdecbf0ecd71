//! One model call, from the moment the vendor is asked until its record is written.

use std::sync::Arc;

use cocoonbox_proto::log::v1::{BudgetScope, UsageModelCalled};
use http::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::hold::{Asker, UsageSink};
use super::meter::Meter;
use super::outbound::Sending;
use super::wire::Wire;
use crate::door::Channel;

/// The agent's own id of a call; it ends up in the account log.
const CALL_ID_HEADER: &str = "x-cocoonbox-call";

/// Which agent calls, and in which role its model is. The box's word, as the id is.
const AGENT_HEADER: &str = "x-cocoonbox-agent";
const ROLE_HEADER: &str = "x-cocoonbox-role";

const ID_BYTES_MAX: usize = 64;

const MODEL_CHARS_MAX: usize = 128;

/// A call in flight. Dropping it writes the record: there is no way to end without one, and none to
/// write two.
pub(crate) struct Call {
    usage: UsageModelCalled,
    started: Instant,
    channel: Channel,
    sending: Arc<Sending>,
    meter: Option<Meter>,
    whole: bool,
    /// The vendor is known to have done nothing for it.
    undone: bool,
    /// It was not let through: there is nothing to tell.
    refused: bool,
    writer: Writer,
}

/// Where records are written from: a drop cannot wait.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) sink: Arc<dyn UsageSink>,
    pub(crate) tasks: TaskTracker,
}

impl Call {
    /// Needs a tokio runtime.
    pub(crate) fn begin(
        wire: Wire,
        channel: &Channel,
        headers: &HeaderMap,
        sending: Arc<Sending>,
        writer: Writer,
    ) -> Self {
        let said = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let usage = UsageModelCalled {
            box_id: channel.box_id.clone(),
            call_id: sanitise(said(CALL_ID_HEADER).unwrap_or_default()),
            agent_id: sanitise(said(AGENT_HEADER).unwrap_or_default()),
            role: sanitise(said(ROLE_HEADER).unwrap_or_default()),
            vendor: wire.vendor().to_owned(),
            ..UsageModelCalled::default()
        };
        Self {
            usage,
            started: Instant::now(),
            channel: channel.clone(),
            sending,
            meter: None,
            whole: false,
            undone: false,
            refused: false,
            writer,
        }
    }

    /// Returns whose budgets the call counts in.
    pub(crate) fn scope(&self) -> BudgetScope {
        BudgetScope {
            box_id: self.channel.box_id.clone(),
            agent_id: self.usage.agent_id.clone(),
        }
    }

    pub(crate) fn asker(&self) -> Asker {
        Asker {
            by: self.scope(),
            channel: self.channel.clone(),
            writer: self.writer.clone(),
        }
    }

    /// Notes that the vendor was not reached or gave the call up.
    pub(crate) fn undone(mut self) {
        self.undone = true;
    }

    /// Ends a call that was not let through.
    pub(crate) fn refused(mut self) {
        self.refused = true;
    }

    pub(crate) fn answered(&mut self, status: StatusCode, meter: Meter) {
        self.usage.status = status.as_u16().into();
        self.meter = Some(meter);
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        if let Some(meter) = &mut self.meter {
            meter.feed(bytes);
        }
    }

    /// Notes that the body came to its end, and writes the record.
    pub(crate) fn ended(mut self) {
        self.whole = true;
    }
}

impl Call {
    /// Takes what the vendor said was used, and where it did not say, what must be thought.
    fn take_tokens(&mut self) {
        let asked = self.sending.estimate();
        let usage = &mut self.usage;
        let Some(meter) = &mut self.meter else {
            // Who left while the vendor was at it does not know what it did.
            if self.sending.is_whole() && !self.undone {
                usage.estimated = true;
                usage.input_tokens = asked.input_tokens;
            }
            return;
        };
        let metered = meter.finish(self.whole);
        let tokens = metered.tokens;
        usage.complete = metered.complete;
        usage.input_tokens = tokens.input;
        usage.output_tokens = tokens.output;
        usage.cache_read_tokens = tokens.cache_read;
        usage.cache_write_tokens = tokens.cache_write;
        let is_success = (200..300).contains(&usage.status);
        if metered.is_final || metered.is_failure || !is_success {
            return;
        }
        usage.estimated = true;
        if !metered.is_input_known {
            usage.input_tokens = asked.input_tokens;
        }
        let seen = metered.output_estimate.min(asked.output_tokens);
        usage.output_tokens = usage.output_tokens.max(seen);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // From here on a reservation that is still on its way is given back by whoever brings it.
        let hold = self.sending.close();
        if self.refused && hold.is_none() {
            return;
        }
        self.take_tokens();
        let mut usage = std::mem::take(&mut self.usage);
        usage.model = readable(&self.sending.model());
        if let Some(hold) = &hold {
            usage.reservation_id.clone_from(&hold.id);
        }
        let elapsed = self.started.elapsed().as_millis();
        usage.duration_ms = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let Ok(runtime) = Handle::try_current() else {
            tracing::error!(
                r#box = self.channel.box_id,
                "no runtime to record a model call on"
            );
            return;
        };
        let sink = Arc::clone(&self.writer.sink);
        let channel = self.channel.clone();
        let settle = async move { sink.settle(usage, hold, &channel).await };
        self.writer.tasks.spawn_on(settle, &runtime);
    }
}

pub(super) fn readable(model: &str) -> String {
    model
        .chars()
        .filter(|c| !c.is_control())
        .take(MODEL_CHARS_MAX)
        .collect()
}

/// Keeps what an id is made of.
fn sanitise(call_id: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    call_id.chars().filter(allowed).take(ID_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_box_says_is_cut_to_size() {
        assert_eq!(sanitise("turn-7.call_2"), "turn-7.call_2");
        assert_eq!(sanitise("a b\t\"<script>"), "abscript");
        assert_eq!(sanitise(&"x".repeat(1000)).len(), ID_BYTES_MAX);
        assert_eq!(readable("a\u{0}b\nc"), "abc");
        assert_eq!(readable(&"x".repeat(1000)).len(), MODEL_CHARS_MAX);
    }
}
