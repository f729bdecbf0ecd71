//! A user with a token, and their clients.

use cocoonbox_proto::{
    agent::v1::{
        agents_client::AgentsClient, control_client::ControlClient, session_client::SessionClient,
    },
    control::v1::{
        CreateUserRequest, IssuedToken, boxes_client::BoxesClient, capsule_client::CapsuleClient,
        erasure_client::ErasureClient, routines_client::RoutinesClient,
        shares_client::SharesClient, users_client::UsersClient,
    },
};
use tonic::{
    Request, Status,
    metadata::MetadataValue,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

/// A connection that says whose it is and, for calls to a box, which.
pub type Authorised = InterceptedService<Channel, Says>;

/// Metadata of every call.
#[derive(Clone, Debug)]
pub struct Says {
    token: String,
    box_id: Option<String>,
}

/// A user of an installation.
#[derive(Clone, Debug)]
pub struct User {
    pub id: String,
    pub name: String,
    pub token_id: String,
    pub token: String,
    channel: Channel,
}

impl Interceptor for Says {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        let bearer: MetadataValue<_> = format!("Bearer {}", self.token)
            .parse()
            .expect("a token is ASCII");
        metadata.insert("authorization", bearer);
        if let Some(id) = &self.box_id {
            metadata.insert("box_id", id.parse().expect("a box id is ASCII"));
        }
        Ok(request)
    }
}

impl User {
    pub fn new(issued: IssuedToken, channel: Channel) -> Self {
        let user = issued.user.expect("a token comes with its user");
        Self {
            id: user.id,
            name: user.name,
            token_id: issued.token_id,
            token: issued.token,
            channel,
        }
    }

    /// The same user over another connection.
    pub fn over(&self, channel: Channel) -> Self {
        Self {
            channel,
            ..self.clone()
        }
    }

    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub fn boxes(&self) -> BoxesClient<Authorised> {
        BoxesClient::new(self.authorised(None))
    }

    pub fn capsule(&self) -> CapsuleClient<Authorised> {
        CapsuleClient::new(self.authorised(None))
    }

    pub fn routines(&self) -> RoutinesClient<Authorised> {
        RoutinesClient::new(self.authorised(None))
    }

    pub fn erasure(&self) -> ErasureClient<Authorised> {
        ErasureClient::new(self.authorised(None))
    }

    pub fn shares(&self) -> SharesClient<Authorised> {
        SharesClient::new(self.authorised(None))
    }

    pub fn users(&self) -> UsersClient<Authorised> {
        UsersClient::new(self.authorised(None))
    }

    pub fn session(&self, box_id: &str) -> SessionClient<Authorised> {
        SessionClient::new(self.authorised(Some(box_id)))
    }

    pub fn control(&self, box_id: &str) -> ControlClient<Authorised> {
        ControlClient::new(self.authorised(Some(box_id)))
    }

    pub fn agents(&self, box_id: &str) -> AgentsClient<Authorised> {
        AgentsClient::new(self.authorised(Some(box_id)))
    }

    /// Makes another user; only admins may.
    pub async fn create(&self, name: &str, channel: Channel) -> Self {
        let request = CreateUserRequest {
            name: name.into(),
            label: "e2e".into(),
            ..Default::default()
        };
        let issued = self.users().create(request).await;
        Self::new(issued.expect("an admin makes a user").into_inner(), channel)
    }

    fn authorised(&self, box_id: Option<&str>) -> Authorised {
        let says = Says {
            token: self.token.clone(),
            box_id: box_id.map(str::to_owned),
        };
        InterceptedService::new(self.channel.clone(), says)
    }
}
