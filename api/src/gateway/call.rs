//! One model call, from the moment the vendor is asked until its record is written.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use cocoonbox_proto::log::v1::UsageModelCalled;
use http::{HeaderMap, StatusCode};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::meter::Meter;
use super::scan::Member;
use super::wire::Wire;
use crate::door::Channel;

/// The agent's own id of a call; it ends up in the account log.
const CALL_ID_HEADER: &str = "x-cocoonbox-call";

const CALL_ID_BYTES_MAX: usize = 64;

const MODEL_CHARS_MAX: usize = 128;

/// Writes down what was used.
#[async_trait]
pub trait UsageSink: Send + Sync + 'static {
    /// Is called once for each call that was sent to a vendor, whatever became of it, after its end.
    /// Nobody waits for it but [`super::Gateway::drained`]; it must deal with its own errors. The
    /// `box_id` comes from the channel; `call_id` and `model` are the box's word.
    async fn record(&self, usage: UsageModelCalled, channel: &Channel);
}

/// A call in flight. Dropping it writes the record: there is no way to end without one, and none to
/// write two.
pub(crate) struct Call {
    usage: UsageModelCalled,
    started: Instant,
    channel: Channel,
    model: Arc<Mutex<Member>>,
    meter: Option<Meter>,
    whole: bool,
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
        model: Arc<Mutex<Member>>,
        writer: Writer,
    ) -> Self {
        let call_id = headers
            .get(CALL_ID_HEADER)
            .and_then(|value| value.to_str().ok());
        let usage = UsageModelCalled {
            box_id: channel.box_id.clone(),
            call_id: sanitise(call_id.unwrap_or_default()),
            vendor: wire.vendor().to_owned(),
            ..UsageModelCalled::default()
        };
        Self {
            usage,
            started: Instant::now(),
            channel: channel.clone(),
            model,
            meter: None,
            whole: false,
            writer,
        }
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

impl Drop for Call {
    fn drop(&mut self) {
        let mut usage = std::mem::take(&mut self.usage);
        if let Some(meter) = &mut self.meter {
            let (tokens, complete) = meter.finish(self.whole);
            usage.input_tokens = tokens.input;
            usage.output_tokens = tokens.output;
            usage.cache_read_tokens = tokens.cache_read;
            usage.cache_write_tokens = tokens.cache_write;
            usage.complete = complete;
        }
        usage.model = model_name(&self.model.lock().unwrap_or_else(PoisonError::into_inner));
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
        let record = async move { sink.record(usage, &channel).await };
        self.writer.tasks.spawn_on(record, &runtime);
    }
}

fn model_name(member: &Member) -> String {
    let name = member
        .value()
        .and_then(|value| serde_json::from_slice::<String>(value).ok());
    let name = name.unwrap_or_default();
    name.chars()
        .filter(|c| !c.is_control())
        .take(MODEL_CHARS_MAX)
        .collect()
}

/// Keeps what an id is made of.
fn sanitise(call_id: &str) -> String {
    let allowed = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
    call_id
        .chars()
        .filter(allowed)
        .take(CALL_ID_BYTES_MAX)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_box_says_is_cut_to_size() {
        assert_eq!(sanitise("turn-7.call_2"), "turn-7.call_2");
        assert_eq!(sanitise("a b\t\"<script>"), "abscript");
        assert_eq!(sanitise(&"x".repeat(1000)).len(), CALL_ID_BYTES_MAX);
        let mut member = Member::new("model");
        member.feed(br#"{"model":"a\u0000b\nc"}"#);
        assert_eq!(model_name(&member), "abc");
        assert_eq!(model_name(&Member::new("model")), "");
    }
}
