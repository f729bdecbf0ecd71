//! One item of a transcript, and where the rows of one event's agent lie.

use cocoonbox_events::{LogInfo, Recorded};
use cocoonbox_proto::{
    agent::v1::{TranscriptItem, transcript_item::Kind},
    log::v1::Image,
};
use serde::{Deserialize, Serialize};

use crate::{
    projection::at_ms,
    row_key,
    rows::{self, Rows, View},
};

/// One item.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemRow {
    /// Text form of the offset key of the last event that changed it.
    pub offset_key: String,
    pub at_ms: i64,
    /// Number of [`Kind`].
    pub kind: i32,
    /// What was said; a call's arguments; a result's content; an approval's id.
    pub text: String,
    pub tool_name: String,
    pub tool_call_id: String,
    /// Lower case. `cut` for streamed output whose whole never came, `erased` for erased content,
    /// `pending`, `allowed`, `denied` or `expired` for approvals, `pending` or `answered` for questions,
    /// `withdrawn` for prompts, else the outcome's name in the log.
    pub outcome: String,
    /// Still being streamed.
    pub partial: bool,
    pub images: Vec<ImageRow>,
    /// Names the whole of a tool output that is cut here.
    pub blob: String,
    /// Of a prompt; for a branch, the one that it begins before.
    pub prompt_id: String,
    /// Empty for the first branch.
    pub branch_id: String,
    /// Number of [`cocoonbox_proto::log::v1::Risk`].
    pub risk: i32,
    /// The approval or the question that this is.
    pub request_id: String,
    /// The content was erased.
    pub erased: bool,
}

/// A picture. Its bytes are a blob of the box's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageRow {
    pub blob: String,
    pub media_type: String,
    pub width_px: u32,
    pub height_px: u32,
    pub size_bytes: u64,
}

impl From<Image> for ImageRow {
    fn from(image: Image) -> Self {
        Self {
            blob: image.blob,
            media_type: image.media_type,
            width_px: image.width_px,
            height_px: image.height_px,
            size_bytes: image.size_bytes,
        }
    }
}

impl From<ImageRow> for Image {
    fn from(row: ImageRow) -> Self {
        Self {
            blob: row.blob,
            media_type: row.media_type,
            width_px: row.width_px,
            height_px: row.height_px,
            size_bytes: row.size_bytes,
        }
    }
}

impl From<ItemRow> for TranscriptItem {
    fn from(row: ItemRow) -> Self {
        Self {
            offset_key: row.offset_key,
            at_ms: row.at_ms,
            kind: row.kind,
            text: row.text,
            tool_name: row.tool_name,
            tool_call_id: row.tool_call_id,
            outcome: row.outcome,
            partial: row.partial,
            images: row.images.into_iter().map(Image::from).collect(),
            blob: row.blob,
            prompt_id: row.prompt_id,
            branch_id: row.branch_id,
            risk: row.risk,
            request_id: row.request_id,
            erased: row.erased,
        }
    }
}

/// What a later event of the same tool call, approval or model call needs to know.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Key of the item.
    pub(super) item: String,
    pub(super) tool_name: String,
}

/// The rows of the agent that an event belongs to.
pub(super) struct Scope<'a> {
    pub(super) event: &'a Recorded,
    log: String,
    /// The branch that the conversation is in.
    pub(super) branch_id: String,
}

impl<'a> Scope<'a> {
    /// An inherited event is of another log than the branch whose rows these are.
    pub(super) fn of(event: &'a Recorded, log: &LogInfo) -> Self {
        Self {
            event,
            log: row_key::log(log.id),
            branch_id: String::new(),
        }
    }

    fn agent(&self) -> &str {
        self.event.stream.id()
    }

    pub(super) fn agent_key(&self) -> String {
        row_key::key(&[&self.log, self.agent()])
    }

    pub(super) fn prefix(&self) -> String {
        row_key::prefix(&[&self.log, self.agent()])
    }

    /// Key of a content block of the event at a position.
    pub(super) fn block_key(&self, pos: u64, block: u32) -> String {
        row_key::key(&[&self.log, self.agent(), &row_key::block(pos, block)])
    }

    /// Key of the item that the event itself makes.
    pub(super) fn own_key(&self) -> String {
        self.block_key(self.event.pos, 0)
    }

    /// Points at the item that the event itself makes.
    pub(super) fn own_mark(&self) -> Mark {
        Mark {
            item: self.own_key(),
            tool_name: String::new(),
        }
    }

    /// An empty item of this event.
    pub(super) fn item(&self, kind: Kind, erased: bool) -> ItemRow {
        ItemRow {
            offset_key: self.event.offset_key().to_string(),
            at_ms: at_ms(self.event),
            kind: kind.into(),
            outcome: if erased {
                "erased".to_owned()
            } else {
                String::new()
            },
            branch_id: self.branch_id.clone(),
            erased,
            ..ItemRow::default()
        }
    }

    /// Writes the event's own item.
    pub(super) fn put(&self, rows: &mut dyn Rows, item: &ItemRow) -> Result<(), rows::Error> {
        rows::put(rows, View::Transcript, &self.own_key(), item)
    }

    fn mark_key(&self, kind: &str, id: &str) -> String {
        row_key::key(&[&self.log, self.agent(), kind, id])
    }

    pub(super) fn mark_prefix(&self, kind: &str) -> String {
        row_key::prefix(&[&self.log, self.agent(), kind])
    }

    pub(super) fn mark(
        &self,
        rows: &dyn Rows,
        kind: &str,
        id: &str,
    ) -> Result<Option<Mark>, rows::Error> {
        rows::get(rows, View::TranscriptMarks, &self.mark_key(kind, id))
    }

    pub(super) fn set_mark(
        &self,
        rows: &mut dyn Rows,
        kind: &str,
        id: &str,
        mark: &Mark,
    ) -> Result<(), rows::Error> {
        rows::put(rows, View::TranscriptMarks, &self.mark_key(kind, id), mark)
    }

    pub(super) fn take_mark(
        &self,
        rows: &mut dyn Rows,
        kind: &str,
        id: &str,
    ) -> Result<Option<Mark>, rows::Error> {
        let mark = self.mark(rows, kind, id)?;
        if mark.is_some() {
            rows.delete(View::TranscriptMarks, &self.mark_key(kind, id))?;
        }
        Ok(mark)
    }
}

/// A name from a `.proto` file as it stands in an item.
pub(super) fn lower(name: &str) -> String {
    name.to_ascii_lowercase()
}
