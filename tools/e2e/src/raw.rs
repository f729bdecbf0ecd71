//! Calls by path, with bytes in place of messages: what no generated client would send.

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::{
    Request, Status,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::{AsciiMetadataKey, AsciiMetadataValue},
    transport::Channel,
};

use crate::until::soon;

/// Messages are taken and given as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// One call.
#[derive(Clone, Debug)]
pub struct Call {
    /// `/package.Service/Method`
    pub path: String,
    pub metadata: Vec<(String, String)>,
    pub messages: Vec<Bytes>,
    /// Answers after which the stream is dropped.
    pub answers_max: usize,
}

impl Call {
    pub fn new(path: &str, message: impl Into<Bytes>) -> Self {
        Self {
            path: path.to_owned(),
            metadata: Vec::new(),
            messages: vec![message.into()],
            answers_max: 100,
        }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.metadata.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn token(self, token: &str) -> Self {
        self.with("authorization", &format!("Bearer {token}"))
    }

    /// Makes the call and returns the answers until the stream's end.
    pub async fn make(self, channel: Channel) -> Result<Vec<Bytes>, Status> {
        let what = format!("{} is answered", self.path);
        soon(&what, async {
            let mut request = Request::new(tokio_stream::iter(self.messages));
            for (name, value) in &self.metadata {
                let name: AsciiMetadataKey = name.parse().expect("a metadata key");
                let value: AsciiMetadataValue = value.parse().expect("a metadata value");
                request.metadata_mut().append(name, value);
            }
            let mut grpc = Grpc::new(channel);
            grpc.ready()
                .await
                .map_err(|error| Status::unavailable(error.to_string()))?;
            let path = self.path.parse().expect("a path");
            let mut stream = grpc
                .streaming(request, path, BytesCodec)
                .await?
                .into_inner();
            let mut answers = Vec::new();
            while answers.len() < self.answers_max {
                match stream.message().await? {
                    Some(answer) => answers.push(answer),
                    None => break,
                }
            }
            Ok(answers)
        })
        .await
    }
}
