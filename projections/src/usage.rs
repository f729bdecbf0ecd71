//! What each user's boxes used, per day, box, vendor and model.

use cocoonbox_events::{Kind, LogInfo, LogKind, Payload, Recorded, UsageEvent};
use cocoonbox_proto::control::v1::UsageRow;
use serde::{Deserialize, Serialize};

use crate::{
    projection::{ApplyError, Projection, Seen},
    row_key,
    rows::{self, Rows, View},
};

pub struct Usage;

/// Sums over the model calls of one day, box, vendor and model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// yyyy-mm-dd, UTC.
    pub day: String,
    pub box_id: String,
    pub vendor: String,
    pub model: String,
    pub calls: u64,
    /// Calls whose answer was not a success or did not come to its end.
    pub failed_calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
}

impl From<UsageTotals> for UsageRow {
    fn from(row: UsageTotals) -> Self {
        Self {
            day: row.day,
            box_id: row.box_id,
            vendor: row.vendor,
            model: row.model,
            calls: row.calls,
            failed_calls: row.failed_calls,
            input_tokens: row.input_tokens,
            output_tokens: row.output_tokens,
            cache_read_tokens: row.cache_read_tokens,
            cache_write_tokens: row.cache_write_tokens,
        }
    }
}

impl Projection for Usage {
    fn name(&self) -> &'static str {
        "usage"
    }

    fn version(&self) -> u32 {
        1
    }

    fn views(&self) -> &'static [View] {
        &[View::Usage]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn apply(
        &self,
        rows: &mut dyn Rows,
        event: &Recorded,
        log: &LogInfo,
    ) -> Result<(), ApplyError> {
        let Some(Seen {
            payload: Payload::Usage(payload),
            erased,
        }) = Seen::read(event)?
        else {
            return Ok(());
        };
        let UsageEvent::ModelCalled(call) = payload;
        if erased {
            return Ok(());
        }
        let day = event.stream.id();
        let key = row_key::key(&[&log.owner, day, &call.box_id, &call.vendor, &call.model]);
        let mut row: UsageTotals =
            rows::get(rows, View::Usage, &key)?.unwrap_or_else(|| UsageTotals {
                day: day.to_owned(),
                box_id: call.box_id.clone(),
                vendor: call.vendor.clone(),
                model: call.model.clone(),
                ..UsageTotals::default()
            });
        row.calls = row.calls.saturating_add(1);
        if !(200..300).contains(&call.status) || !call.complete {
            row.failed_calls = row.failed_calls.saturating_add(1);
        }
        row.input_tokens = row.input_tokens.saturating_add(call.input_tokens);
        row.output_tokens = row.output_tokens.saturating_add(call.output_tokens);
        row.cache_read_tokens = row.cache_read_tokens.saturating_add(call.cache_read_tokens);
        row.cache_write_tokens = row
            .cache_write_tokens
            .saturating_add(call.cache_write_tokens);
        rows::put(rows, View::Usage, &key, &row)?;
        Ok(())
    }

    fn holds(&self, _: &dyn Rows, event: &Recorded, _: &LogInfo) -> Result<bool, rows::Error> {
        Ok(event.kind == Kind::UsageModelCalled.number())
    }

    fn clear(&self, rows: &mut dyn Rows, log: &LogInfo) -> Result<(), rows::Error> {
        rows.delete_prefix(View::Usage, &row_key::prefix(&[&log.owner]))
    }
}
