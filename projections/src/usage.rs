//! What each user's boxes used, per day, box, agent, role, vendor and model.

use cocoonbox_events::{Kind, LogInfo, LogKind, Payload, Recorded, UsageEvent};
use cocoonbox_proto::{control::v1::UsageRow, log::v1::UsageModelCalled};
use serde::{Deserialize, Serialize};

use crate::{
    projection::{ApplyError, Projection, Seen},
    row_key,
    rows::{self, Rows, View},
};

pub struct Usage;

/// Sums over the model calls of one day, box, agent, role, vendor and model.
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
    /// Which agent, and in which role its model was; the box's word.
    pub agent_id: String,
    pub role: String,
    /// Millionths of a dollar, of calls whose model had a price.
    pub cost_micros: u64,
    /// Calls whose model had none.
    pub unpriced_calls: u64,
    /// Calls whose tokens are an estimate.
    pub estimated_calls: u64,
}

impl UsageTotals {
    fn add(&mut self, call: &UsageModelCalled) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        let failed = !(200..300).contains(&call.status) || !call.complete;
        add(&mut self.calls, 1);
        add(&mut self.failed_calls, failed.into());
        add(&mut self.input_tokens, call.input_tokens);
        add(&mut self.output_tokens, call.output_tokens);
        add(&mut self.cache_read_tokens, call.cache_read_tokens);
        add(&mut self.cache_write_tokens, call.cache_write_tokens);
        add(&mut self.cost_micros, call.cost_micros.unwrap_or(0));
        add(&mut self.unpriced_calls, call.cost_micros.is_none().into());
        add(&mut self.estimated_calls, call.estimated.into());
    }
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
            agent_id: row.agent_id,
            role: row.role,
            user_id: String::new(),
            routine_id: String::new(),
            cost_micros: row.cost_micros,
            unpriced_calls: row.unpriced_calls,
            estimated_calls: row.estimated_calls,
        }
    }
}

impl Projection for Usage {
    fn name(&self) -> &'static str {
        "usage"
    }

    fn version(&self) -> u32 {
        2
    }

    fn views(&self) -> &'static [View] {
        &[View::Usage]
    }

    fn wants(&self, kind: LogKind) -> bool {
        kind == LogKind::Account
    }

    fn gives_way(&self) -> bool {
        true
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
        let key = row_key::key(&[
            &log.owner,
            day,
            &call.box_id,
            &call.agent_id,
            &call.role,
            &call.vendor,
            &call.model,
        ]);
        let mut row: UsageTotals =
            rows::get(rows, View::Usage, &key)?.unwrap_or_else(|| UsageTotals {
                day: day.to_owned(),
                box_id: call.box_id.clone(),
                agent_id: call.agent_id.clone(),
                role: call.role.clone(),
                vendor: call.vendor.clone(),
                model: call.model.clone(),
                ..UsageTotals::default()
            });
        row.add(&call);
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
