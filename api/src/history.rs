//! `cocoonbox.control.v1.History`: what was said and done in all boxes of a caller, read from the views.

use std::collections::HashMap;

use cocoonbox_events::LogId;
use cocoonbox_projections::{BoxRow, Hit, Query, Search, Views};
use cocoonbox_proto::control::v1::{SearchHit, SearchRequest, SearchResponse, history_server};
use tonic::{Request, Response, Status};

use crate::{auth::Caller, edge::no_such_box, status};

const HITS: u32 = 30;
const HITS_MAX: u32 = 100;

/// Serves searches.
pub struct History {
    pub views: Views,
}

#[tonic::async_trait]
impl history_server::History for History {
    async fn search(
        &self,
        request: Request<SearchRequest>,
    ) -> Result<Response<SearchResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let user = caller.user()?;
        let request = request.into_inner();
        let query = Query::parse(&request.query);
        let query = query.map_err(|error| status::bad_field("query", error.to_string()))?;
        let boxes = self.boxes(user, &request.box_id).await?;
        let by_log: HashMap<LogId, String> = boxes
            .into_iter()
            .filter_map(|row| Some((row.box_log.parse().ok()?, row.id)))
            .collect();
        let hits_max = match request.page_size {
            0 => HITS,
            asked => asked.min(HITS_MAX),
        };
        let search = Search {
            logs: by_log.keys().copied().collect(),
            query,
            before_ms: match request.before_ms {
                0 => i64::MAX,
                before => before,
            },
            kinds: request.kinds,
            hits_max: usize::try_from(hits_max).unwrap_or(usize::MAX),
        };
        let found = self.views.search(search).await;
        let found = found.map_err(|error| status::internal(&error))?;
        let hits = found.hits.into_iter().map(|hit| SearchHit {
            box_id: by_log.get(&hit.log).cloned().unwrap_or_default(),
            ..shown(hit)
        });
        Ok(Response::new(SearchResponse {
            hits: hits.collect(),
            searched_to_ms: found.searched_to_ms.unwrap_or_default(),
        }))
    }
}

impl History {
    /// The caller's boxes, or the one that is asked for. Someone else's and none at all are told apart to nobody.
    async fn boxes(&self, user: &str, box_id: &str) -> Result<Vec<BoxRow>, Status> {
        if box_id.is_empty() {
            let boxes = self.views.boxes(user).await;
            return boxes.map_err(|error| status::internal(&error));
        }
        let row = self.views.box_(user, box_id).await;
        let row = row.map_err(|error| status::internal(&error))?;
        Ok(vec![row.ok_or_else(|| no_such_box(box_id))?])
    }
}

fn shown(hit: Hit) -> SearchHit {
    let item = hit.item;
    SearchHit {
        box_id: String::new(),
        agent_id: hit.agent_id,
        offset_key: item.offset_key,
        at_ms: item.at_ms,
        kind: item.kind,
        tool_name: item.tool_name,
        excerpt: item.text,
        branch_id: item.branch_id,
    }
}
