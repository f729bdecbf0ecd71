//! The services, over the story.

use std::pin::Pin;

use cocoonbox_proto::{
    agent::v1::{
        Agent, AgentRef, BlobPart, BranchRequest, ConfigureRequest, CreateAgentRequest,
        EventsRequest, ExecRequest, ExecResponse, HelloRequest, HelloResponse, ListAgentsRequest,
        ListAgentsResponse, ReadBlobRequest, RespondRequest, ScreenRequest, ScreenResponse,
        SelectBranchRequest, SendAccepted, SendRequest, SignalExecRequest, SignalExecResponse,
        TranscriptPage, TranscriptRequest, WithdrawRequest, agents_server::Agents, exec_request,
        screen_request, screen_response, session_server::Session,
    },
    control::v1::{
        Box as OneBox, BoxRef, EnsureRequest, EraseEvent, EraseRequest, EraseResponse, ForkRequest,
        GetBoxRequest, KeepAwakeRequest, ListBoxesRequest, ListBoxesResponse, Operation,
        OperationEvent, SetBoxModelsRequest, State, WatchBoxesRequest, WatchRequest,
        boxes_server::Boxes, erasure_server::Erasure,
    },
    log::v1::{EventOrHeartbeat, event_or_heartbeat::Item, exec_output_streamed::Source},
};
use futures::{Stream, StreamExt, stream};
use tonic::{Request, Response, Status, Streaming, async_trait};

use super::{Cut, Fake, Script, exited, printed, started};

pub(super) type Boxed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub(super) fn none<T>() -> Result<T, Status> {
    Err(Status::unimplemented("not in this test"))
}

#[async_trait]
impl Boxes for Fake {
    async fn fork(&self, _: Request<ForkRequest>) -> Result<Response<OneBox>, Status> {
        none()
    }

    async fn set_models(
        &self,
        request: Request<SetBoxModelsRequest>,
    ) -> Result<Response<OneBox>, Status> {
        let request = request.into_inner();
        let mut story = self.state();
        let found = story.boxes.iter_mut().find(|one| one.id == request.box_id);
        let found = found.ok_or_else(|| Status::not_found("no such box"))?;
        found.models = request.models;
        found.models_in_use.clone_from(&found.models);
        Ok(Response::new(found.clone()))
    }

    async fn keep_awake(
        &self,
        request: Request<KeepAwakeRequest>,
    ) -> Result<Response<OneBox>, Status> {
        let request = request.into_inner();
        let mut story = self.state();
        let found = story.boxes.iter_mut().find(|one| one.id == request.box_id);
        let found = found.ok_or_else(|| Status::not_found("no such box"))?;
        found.awake_until_ms = request.until_ms;
        Ok(Response::new(found.clone()))
    }

    async fn ensure(&self, request: Request<EnsureRequest>) -> Result<Response<OneBox>, Status> {
        let mut story = self.state();
        let request = request.into_inner();
        let mut found = story
            .boxes
            .iter()
            .find(|one| one.name == request.name)
            .cloned();
        story.seen.ensured.push(request);
        let found = found.get_or_insert_default();
        if found.state() != State::Running {
            found.operation_id = "op1".into();
        }
        Ok(Response::new(found.clone()))
    }

    async fn get(&self, request: Request<GetBoxRequest>) -> Result<Response<OneBox>, Status> {
        let id = request.into_inner().box_id;
        let found = self.state().boxes.iter().find(|one| one.id == id).cloned();
        found
            .map(Response::new)
            .ok_or_else(|| Status::not_found("no such box"))
    }

    async fn list(
        &self,
        request: Request<ListBoxesRequest>,
    ) -> Result<Response<ListBoxesResponse>, Status> {
        self.note(request.metadata());
        let story = self.state();
        match &story.list_error {
            Some(status) => Err(status.clone()),
            None => {
                let boxes = story.boxes.clone();
                Ok(Response::new(ListBoxesResponse {
                    boxes,
                    offset_key: String::new(),
                }))
            }
        }
    }

    type WatchStream = Boxed<ListBoxesResponse>;
    async fn watch(
        &self,
        _: Request<WatchBoxesRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        none()
    }

    async fn hibernate(&self, request: Request<BoxRef>) -> Result<Response<Operation>, Status> {
        let box_id = request.into_inner().box_id;
        Ok(Response::new(Operation {
            id: "op1".into(),
            box_id,
            ..Operation::default()
        }))
    }

    async fn delete(&self, request: Request<BoxRef>) -> Result<Response<Operation>, Status> {
        self.hibernate(request).await
    }

    type WatchOperationStream = Boxed<OperationEvent>;
    async fn watch_operation(
        &self,
        _: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchOperationStream>, Status> {
        let steps = self.state().steps.clone();
        Ok(Response::new(
            stream::iter(steps.into_iter().map(Ok)).boxed(),
        ))
    }
}

#[async_trait]
impl Session for Fake {
    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloResponse>, Status> {
        none()
    }

    type ScreenStream = Boxed<ScreenResponse>;
    async fn screen(
        &self,
        request: Request<Streaming<ScreenRequest>>,
    ) -> Result<Response<Self::ScreenStream>, Status> {
        let (fake, mut requests) = (self.clone(), request.into_inner());
        // It ends when it has heard everything, as the api does.
        let heard = async move {
            let mut heard = Vec::new();
            let end = loop {
                match requests.message().await {
                    Ok(Some(request)) => match request.frame {
                        Some(screen_request::Frame::Rfb(bytes)) => heard.extend(bytes),
                        Some(screen_request::Frame::Start(_)) | None => {}
                    },
                    Ok(None) => break Ok(heard),
                    Err(status) => break Err(status),
                }
            };
            fake.state().seen.screens.push(end);
            None
        };
        let greeting = screen_response::Frame::Rfb("RFB 003.008\n".into());
        let greeting = ScreenResponse {
            frame: Some(greeting),
        };
        let end = stream::once(heard).filter_map(|none| async { none });
        Ok(Response::new(
            stream::iter([Ok(greeting)]).chain(end).boxed(),
        ))
    }

    type EventsStream = Boxed<EventOrHeartbeat>;
    async fn events(
        &self,
        request: Request<EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        self.note(request.metadata());
        let request = request.into_inner();
        let mut story = self.state();
        story.seen.from_offsets.push(request.from_offset.clone());
        let wanted = |stream: &str| {
            request.streams.is_empty() || request.streams.iter().any(|s| stream.starts_with(s))
        };
        let events = story
            .log
            .iter()
            .filter(|event| event.offset_key > request.from_offset);
        let mut items: Vec<Result<EventOrHeartbeat, Status>> = events
            .filter(|event| wanted(&event.stream))
            .map(|event| EventOrHeartbeat {
                offset_key: event.offset_key.clone(),
                item: Some(Item::Event(event.clone())),
            })
            .map(Ok)
            .collect();
        let cut = story.cuts.pop_front();
        match cut {
            Some(Cut::Error(after)) => {
                items.truncate(after);
                items.push(Err(Status::unavailable("cut")));
            }
            Some(Cut::Clean(after)) => items.truncate(after),
            Some(Cut::Always) => {
                story.cuts.push_front(Cut::Always);
                return Err(Status::unavailable("gone"));
            }
            None if request.no_follow => {}
            None => {
                return Ok(Response::new(
                    stream::iter(items).chain(stream::pending()).boxed(),
                ));
            }
        }
        Ok(Response::new(stream::iter(items).boxed()))
    }

    type ExecStream = Boxed<ExecResponse>;
    async fn exec(
        &self,
        request: Request<Streaming<ExecRequest>>,
    ) -> Result<Response<Self::ExecStream>, Status> {
        self.note(request.metadata());
        let mut input = request.into_inner();
        let Some(exec_request::Frame::Start(start)) =
            input.message().await?.and_then(|first| first.frame)
        else {
            return Err(Status::invalid_argument("the first frame is not `start`"));
        };
        let mut story = self.state();
        story.seen.starts.push(start.clone());
        let frames = match story.execs.pop_front() {
            None => return Err(Status::already_exists("this exec id was used before")),
            Some(Script::Frames(frames)) => stream::iter(frames).boxed(),
            Some(Script::Echo) => {
                let first = stream::iter([started(&start.exec_id, 0)]);
                let echo = stream::unfold(Some(input), |input| async move {
                    let mut input = input?;
                    match input.message().await.ok()??.frame? {
                        exec_request::Frame::Stdin(data) => {
                            Some((printed(0, Source::Stdout, &data), Some(input)))
                        }
                        _ => Some((exited(0, 0), None)),
                    }
                });
                first.chain(echo).boxed()
            }
        };
        Ok(Response::new(frames))
    }

    async fn signal_exec(
        &self,
        request: Request<SignalExecRequest>,
    ) -> Result<Response<SignalExecResponse>, Status> {
        self.state().seen.signals.push(request.into_inner());
        Ok(Response::new(SignalExecResponse {}))
    }
}

#[async_trait]
impl Agents for Fake {
    type ReadBlobStream = Boxed<BlobPart>;

    async fn read_blob(
        &self,
        _: Request<ReadBlobRequest>,
    ) -> Result<Response<Boxed<BlobPart>>, Status> {
        none()
    }

    async fn withdraw(&self, _: Request<WithdrawRequest>) -> Result<Response<()>, Status> {
        none()
    }

    async fn branch(&self, _: Request<BranchRequest>) -> Result<Response<SendAccepted>, Status> {
        none()
    }

    async fn select_branch(&self, _: Request<SelectBranchRequest>) -> Result<Response<()>, Status> {
        none()
    }

    async fn configure(
        &self,
        request: Request<ConfigureRequest>,
    ) -> Result<Response<Agent>, Status> {
        let ConfigureRequest { models, rules, .. } = request.into_inner();
        let mut story = self.state();
        let agent = story
            .agents
            .first_mut()
            .ok_or_else(|| Status::not_found("no agent"))?;
        agent.models = models.or(agent.models.take());
        agent.rules = rules.or(agent.rules.take());
        Ok(Response::new(agent.clone()))
    }

    async fn create(
        &self,
        request: Request<CreateAgentRequest>,
    ) -> Result<Response<Agent>, Status> {
        let asked = request.into_inner();
        let agent = Agent {
            id: "a9".into(),
            name: asked.name.clone(),
            ..Agent::default()
        };
        self.state().seen.created.push(asked);
        Ok(Response::new(agent))
    }

    async fn list(
        &self,
        request: Request<ListAgentsRequest>,
    ) -> Result<Response<ListAgentsResponse>, Status> {
        self.note(request.metadata());
        Ok(Response::new(ListAgentsResponse {
            agents: self.state().agents.clone(),
        }))
    }

    async fn send(&self, request: Request<SendRequest>) -> Result<Response<SendAccepted>, Status> {
        self.note(request.metadata());
        self.state().seen.sent.push(request.into_inner());
        Ok(Response::new(SendAccepted {
            agent_id: "a1".into(),
            prompt_id: "p1".into(),
            offset_key: super::key(0),
        }))
    }

    async fn transcript(
        &self,
        _: Request<TranscriptRequest>,
    ) -> Result<Response<TranscriptPage>, Status> {
        none()
    }

    async fn respond(&self, request: Request<RespondRequest>) -> Result<Response<()>, Status> {
        self.state().seen.responded.push(request.into_inner());
        Ok(Response::new(()))
    }

    async fn cancel(&self, _: Request<AgentRef>) -> Result<Response<()>, Status> {
        none()
    }
}

/// The positions 1 to 3 of a log, of which 2 is structure.
#[async_trait]
impl Erasure for Fake {
    async fn erase(
        &self,
        request: Request<EraseRequest>,
    ) -> Result<Response<EraseResponse>, Status> {
        let request = request.into_inner();
        let event = |pos: u64, kind: &str, why: &str| EraseEvent {
            offset_key: format!("log.{pos}"),
            stream: "agent/main".into(),
            kind: kind.into(),
            bytes: 10 * pos,
            kept_because: why.into(),
        };
        self.state().seen.erased.push(request.clone());
        Ok(Response::new(EraseResponse {
            erased: vec![
                event(1, "agent.prompt_received", ""),
                event(3, "agent.model_replied", ""),
            ],
            kept: vec![event(2, "agent.turn_started", "it holds ids only")],
            offset_key: String::new(),
            complete: false,
        }))
    }
}
