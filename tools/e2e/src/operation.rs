//! Ensure, hibernate, delete, each to its end, whatever breaks on the way.

use std::future::Future;

use cocoonbox_proto::control::v1::{
    BoxRef, EnsureRequest, GetBoxRequest, ListBoxesRequest, OperationEvent, Phase, State,
    WatchRequest,
};
use tonic::Status;
use uuid::Uuid;

use crate::{
    User, is_broken,
    until::{soon, until},
};

/// How an operation ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub operation_id: String,
    pub phase: Phase,
    /// Every step that was seen, the last included.
    pub steps: Vec<OperationEvent>,
}

impl Ended {
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }
}

/// Makes a call until its connection holds: the same call, with the same command id.
pub async fn retrying<T, F>(what: &str, mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    until(what, || {
        let call = call();
        async {
            match call.await {
                Err(status) if is_broken(&status) => None,
                outcome => Some(outcome),
            }
        }
    })
    .await
}

impl User {
    /// Ensures the box `name` and returns its id once it runs.
    pub async fn ensure(&self, name: &str) -> String {
        let request = EnsureRequest {
            name: name.into(),
            command_id: Uuid::new_v4().to_string(),
            ..Default::default()
        };
        let (id, ended) = self.ensure_as(request).await.expect("a box can be ensured");
        assert!(
            ended.as_ref().is_none_or(Ended::is_done),
            "the box did not start: {ended:?}"
        );
        id
    }

    /// Makes one Ensure call and follows its operation to the end, over any number of breaks.
    pub async fn ensure_as(
        &self,
        request: EnsureRequest,
    ) -> Result<(String, Option<Ended>), Status> {
        let call = || {
            let request = request.clone();
            async move { self.boxes().ensure(request).await }
        };
        let found = retrying("Ensure is answered", call).await?.into_inner();
        let ended = match found.operation_id.as_str() {
            "" => None,
            id => Some(self.watch(id).await?),
        };
        Ok((found.id, ended))
    }

    /// Hibernates a box and returns once it sleeps.
    pub async fn hibernate(&self, box_id: &str) {
        let ended = self.hibernate_as(box_id, &Uuid::new_v4().to_string()).await;
        let ended = ended.expect("a box can be hibernated");
        assert!(
            ended.as_ref().is_none_or(Ended::is_done),
            "the box did not go to sleep: {ended:?}"
        );
    }

    pub async fn hibernate_as(&self, box_id: &str, command: &str) -> Result<Option<Ended>, Status> {
        let call = || {
            let request = BoxRef {
                box_id: box_id.into(),
                command_id: command.into(),
            };
            async move { self.boxes().hibernate(request).await }
        };
        let operation = retrying("Hibernate is answered", call).await?.into_inner();
        self.watch_some(&operation.id).await
    }

    /// Deletes a box and returns once it is gone.
    pub async fn delete(&self, box_id: &str) {
        let ended = self.delete_as(box_id, &Uuid::new_v4().to_string()).await;
        let ended = ended.expect("a box can be deleted");
        assert!(
            ended.as_ref().is_none_or(Ended::is_done),
            "the box was not deleted: {ended:?}"
        );
    }

    pub async fn delete_as(&self, box_id: &str, command: &str) -> Result<Option<Ended>, Status> {
        let call = || {
            let request = BoxRef {
                box_id: box_id.into(),
                command_id: command.into(),
            };
            async move { self.boxes().delete(request).await }
        };
        let operation = retrying("Delete is answered", call).await?.into_inner();
        self.watch_some(&operation.id).await
    }

    /// Follows an operation to its end; resumes behind the last step seen when the stream breaks.
    pub async fn watch(&self, operation_id: &str) -> Result<Ended, Status> {
        let work = async {
            let mut steps: Vec<OperationEvent> = Vec::new();
            loop {
                match self.watch_once(operation_id, &mut steps).await {
                    Err(status) if is_broken(&status) => {
                        tokio::time::sleep(crate::until::STEP).await;
                    }
                    Err(status) => return Err(status),
                    Ok(()) => {
                        let phase = steps.last().map(OperationEvent::phase);
                        let phase = phase.filter(|p| matches!(p, Phase::Done | Phase::FailedPhase));
                        let phase = phase.unwrap_or_else(|| {
                            panic!("the stream of {operation_id} ended without an end: {steps:?}")
                        });
                        let operation_id = operation_id.to_owned();
                        return Ok(Ended {
                            operation_id,
                            phase,
                            steps,
                        });
                    }
                }
            }
        };
        soon(&format!("operation {operation_id} ends"), work).await
    }

    /// Returns the state of a box; `None` if there is no such box.
    pub async fn state(&self, box_id: &str) -> Option<State> {
        let request = GetBoxRequest {
            box_id: box_id.into(),
            ..Default::default()
        };
        match self.boxes().get(request).await {
            Ok(found) => Some(found.into_inner().state()),
            Err(status) if status.code() == tonic::Code::NotFound => None,
            Err(status) => panic!("Get of {box_id}: {status:?}"),
        }
    }

    /// Returns the ids of all boxes.
    pub async fn box_ids(&self) -> Vec<String> {
        let list = self
            .boxes()
            .list(ListBoxesRequest::default())
            .await
            .expect("List is answered");
        list.into_inner()
            .boxes
            .into_iter()
            .map(|found| found.id)
            .collect()
    }

    async fn watch_some(&self, operation_id: &str) -> Result<Option<Ended>, Status> {
        match operation_id {
            "" => Ok(None),
            id => self.watch(id).await.map(Some),
        }
    }

    async fn watch_once(&self, id: &str, steps: &mut Vec<OperationEvent>) -> Result<(), Status> {
        let from_offset = steps
            .last()
            .map(|step| step.offset_key.clone())
            .unwrap_or_default();
        let request = WatchRequest {
            operation_id: id.into(),
            from_offset,
        };
        let mut stream = self.boxes().watch_operation(request).await?.into_inner();
        while let Some(step) = stream.message().await? {
            steps.push(step);
        }
        Ok(())
    }
}

/// Deletes every box of these users and returns what went wrong.
pub(crate) async fn delete_all(users: &[User]) -> Vec<String> {
    let mut wrong = Vec::new();
    for user in users {
        let boxes = match user.boxes().list(ListBoxesRequest::default()).await {
            Ok(list) => list.into_inner().boxes,
            Err(status) => {
                wrong.push(format!("boxes of {} cannot be listed: {status}", user.name));
                continue;
            }
        };
        for found in boxes {
            match user.delete_as(&found.id, &Uuid::new_v4().to_string()).await {
                Ok(ended) if ended.as_ref().is_none_or(Ended::is_done) => {}
                outcome => wrong.push(format!("{} was not deleted: {outcome:?}", found.id)),
            }
        }
    }
    wrong
}
