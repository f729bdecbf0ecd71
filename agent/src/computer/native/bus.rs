//! The accessibility bus: a message bus of its own, on which programs tell of their elements.

use std::{num::NonZeroUsize, time::Duration};

use futures::{Stream, StreamExt as _};
use zbus::{
    Connection, DynamicType, MatchRule, MessageStream, OwnedObjectPath, OwnedVariant, Type,
    connection::Builder,
};

use super::super::{backend::Token, refusal::Fault};

/// For one answer of a program. One that is stopped in a debugger has none.
const ANSWER_MAX: Duration = Duration::from_millis(1_200);

pub(super) const ACCESSIBLE: &str = "org.a11y.atspi.Accessible";
pub(super) const APPLICATION: &str = "org.a11y.atspi.Application";
pub(super) const COMPONENT: &str = "org.a11y.atspi.Component";
pub(super) const ACTION: &str = "org.a11y.atspi.Action";
pub(super) const TEXT: &str = "org.a11y.atspi.Text";
pub(super) const EDITABLE: &str = "org.a11y.atspi.EditableText";
pub(super) const VALUE: &str = "org.a11y.atspi.Value";
const OBJECT_EVENTS: &str = "org.a11y.atspi.Event.Object";
const REGISTRY: &str = "org.a11y.atspi.Registry";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// An element as the bus names it: program and path.
pub(super) type Reference = (String, OwnedObjectPath);

/// Events on their way to who reads them. Behind these the bus keeps them.
const EVENTS_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// A connection to it.
#[derive(Debug)]
pub(super) struct Bus {
    connection: Connection,
    address: String,
}

impl Bus {
    pub(super) async fn connect() -> Result<Self, Fault> {
        let session = Builder::session()
            .method_timeout(ANSWER_MAX)
            .build()
            .await?;
        let launcher = Token {
            program: "org.a11y.Bus".to_owned(),
            path: "/org/a11y/bus".to_owned(),
        };
        let session = Self {
            connection: session,
            address: String::new(),
        };
        let address: String = session
            .ask(&launcher, "org.a11y.Bus", "GetAddress", &())
            .await?;
        Ok(Self {
            connection: connection(&address).await?,
            address,
        })
    }

    /// Events of elements, with the element of each, by a connection of its own: one whose events are not read holds
    /// up all that comes by it. Programs tell only of what somebody [wants](Self::wants).
    pub(super) async fn events(
        &self,
        member: &'static str,
        detail: Option<&'static str>,
    ) -> Result<impl Stream<Item = Token> + Send + Unpin + use<>, Fault> {
        let connection = connection(&self.address).await?;
        let mut rule = MatchRule::builder()
            .msg_type(zbus::message::Type::Signal)
            .interface(OBJECT_EVENTS)
            .member(member);
        if let Some(detail) = detail {
            rule = rule.arg(0, detail);
        }
        let rule = rule.build()?;
        let heard = MessageStream::for_match_rule(rule, &connection, Some(EVENTS_MAX)).await?;
        Ok(heard.filter_map(|message| std::future::ready(message.ok().and_then(|it| origin(&it)))))
    }

    /// Has programs tell of what happens, for as long as this connection lasts.
    pub(super) async fn wants(&self, event: &str) -> Result<(), Fault> {
        let registry = Token {
            program: REGISTRY.to_owned(),
            path: "/org/a11y/atspi/registry".to_owned(),
        };
        self.ask(&registry, REGISTRY, "RegisterEvent", &(event,))
            .await
    }

    /// The programs that tell of their elements.
    pub(super) async fn programs(&self) -> Result<Vec<Token>, Fault> {
        let registry = Token {
            program: REGISTRY.to_owned(),
            path: "/org/a11y/atspi/accessible/root".to_owned(),
        };
        self.children(&registry).await
    }

    pub(super) async fn children(&self, token: &Token) -> Result<Vec<Token>, Fault> {
        let children: Vec<Reference> = self.ask(token, ACCESSIBLE, "GetChildren", &()).await?;
        Ok(children.into_iter().map(Token::from).collect())
    }

    /// What an element is in.
    pub(super) async fn parent(&self, of: &Token) -> Result<Token, Fault> {
        let wrong = || Fault::Elements(zbus::Error::IncorrectType);
        let parent: OwnedVariant = self.property(of, ACCESSIBLE, "Parent").await?;
        let parent: &zbus::Structure<'_> = parent.downcast_ref().map_err(|_| wrong())?;
        let [program, path] = parent.fields() else {
            return Err(wrong());
        };
        let program: &str = program.downcast_ref().map_err(|_| wrong())?;
        let path: &zbus::ObjectPath<'_> = path.downcast_ref().map_err(|_| wrong())?;
        Ok(Token {
            program: program.to_owned(),
            path: path.to_string(),
        })
    }

    /// The process that a program is.
    pub(super) async fn pid(&self, program: &str) -> Result<u32, Fault> {
        let bus = Token {
            program: "org.freedesktop.DBus".to_owned(),
            path: "/org/freedesktop/DBus".to_owned(),
        };
        self.ask(
            &bus,
            "org.freedesktop.DBus",
            "GetConnectionUnixProcessID",
            &(program,),
        )
        .await
    }

    /// Asks an element something.
    pub(super) async fn ask<A, R>(
        &self,
        of: &Token,
        interface: &str,
        method: &str,
        about: &A,
    ) -> Result<R, Fault>
    where
        A: serde::Serialize + DynamicType + Sync,
        R: serde::de::DeserializeOwned + Type,
    {
        let (program, path) = (of.program.as_str(), of.path.as_str());
        let asked =
            self.connection
                .call_method(Some(program), path, Some(interface), method, about);
        let reply = asked.await.map_err(fault)?;
        let body = reply.body();
        // What it says is of another kind than it should be.
        body.deserialize::<R>().map_err(Fault::Elements)
    }

    pub(super) async fn property<R>(
        &self,
        of: &Token,
        interface: &str,
        name: &str,
    ) -> Result<R, Fault>
    where
        R: TryFrom<OwnedVariant>,
    {
        let found: OwnedVariant = self.ask(of, PROPERTIES, "Get", &(interface, name)).await?;
        R::try_from(found).map_err(|_| Fault::Elements(zbus::Error::IncorrectType))
    }

    pub(super) async fn set_property(
        &self,
        of: &Token,
        interface: &str,
        name: &str,
        to: f64,
    ) -> Result<(), Fault> {
        let value = zbus::Variant::from(to);
        self.ask(of, PROPERTIES, "Set", &(interface, name, value))
            .await
    }
}

async fn connection(address: &str) -> Result<Connection, Fault> {
    let builder = Builder::address(address).method_timeout(ANSWER_MAX);
    Ok(builder.build().await?)
}

/// Which element a message comes from.
fn origin(message: &zbus::Message) -> Option<Token> {
    let header = message.header();
    Some(Token {
        program: header.sender()?.to_string(),
        path: header.path()?.to_string(),
    })
}

impl From<Reference> for Token {
    fn from((program, path): Reference) -> Self {
        Self {
            program,
            path: path.to_string(),
        }
    }
}

fn fault(error: zbus::Error) -> Fault {
    match &error {
        zbus::Error::InputOutput(io) if io.kind() == std::io::ErrorKind::TimedOut => {
            Fault::Silent(ANSWER_MAX.as_millis())
        }
        zbus::Error::FDO(fdo) => match **fdo {
            zbus::fdo::Error::UnknownObject(_)
            | zbus::fdo::Error::ServiceUnknown(_)
            | zbus::fdo::Error::NameHasNoOwner(_) => Fault::Gone,
            _ => Fault::Elements(error),
        },
        _ => Fault::Elements(error),
    }
}
