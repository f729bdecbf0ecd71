//! Generations: which packs are being given up, decided by a sweep, respected by saves.

use crate::{
    encoding::{self, Bytes, put_number, put_signed},
    error::{Damage, Error},
    id::ObjectId,
    key::{Keys, Kind},
    seal::{self, Sealed},
    store::{self, Created, Store},
};

/// Where generations lie, by number.
pub const FOLDER: &str = "generation";
const MAGIC: &[u8; 8] = b"CBGENR\x01\0";

/// How often the newest is looked for again because it was replaced meanwhile.
const RETRIES: usize = 5;

/// One sweep's decision. The first, 0, is not written: nothing is given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    pub number: u64,
    pub given_up: Vec<GivenUp>,
}

/// A pack that no save may rely on any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    pub kind: Kind,
    pub pack: ObjectId,
    /// The generation that gave it up.
    pub since: u64,
    /// When, by the store's clock.
    pub since_ns: i64,
}

impl Generation {
    /// The packs given up.
    pub fn packs(&self) -> Vec<ObjectId> {
        self.given_up.iter().map(|given| given.pack).collect()
    }

    /// Those given up after a generation.
    pub fn given_up_since(&self, began: u64) -> impl Iterator<Item = &GivenUp> {
        self.given_up
            .iter()
            .filter(move |given| given.since > began)
    }

    /// Reads the plain bytes of a generation.
    pub fn decode(plain: &[u8]) -> Result<Self, encoding::Error> {
        let mut bytes = Bytes::new(plain);
        let number = bytes.number("generation")?;
        let count = bytes.count(19, "packs given up")?;
        let mut given_up = Vec::with_capacity(count);
        for _ in 0..count {
            let kind =
                Kind::from_byte(bytes.byte("kind")?).ok_or(encoding::Error::Value("kind"))?;
            given_up.push(GivenUp {
                kind,
                pack: ObjectId(bytes.array("pack id")?),
                since: bytes.number("since")?,
                since_ns: bytes.signed("since")?,
            });
        }
        bytes.end()?;
        Ok(Self { number, given_up })
    }

    /// The plain bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, self.number);
        put_number(&mut out, self.given_up.len() as u64);
        for given in &self.given_up {
            out.push(given.kind.byte());
            out.extend_from_slice(&given.pack.0);
            put_number(&mut out, given.since);
            put_signed(&mut out, given.since_ns);
        }
        out
    }

    /// Writes it, unless another sweep wrote one of that number.
    pub fn write(&self, store: &dyn Store, keys: &Keys) -> Result<Created, Error> {
        let mut bytes = MAGIC.to_vec();
        let name = self.number.to_be_bytes();
        seal::seal(keys, Sealed::Generation, &name, &self.encode(), &mut bytes)?;
        Ok(store.create(&object(self.number), &bytes)?)
    }
}

/// The newest generation.
pub fn latest(store: &dyn Store, keys: &Keys) -> Result<Generation, Error> {
    let mut tries = 0;
    loop {
        let Some(stored) = store.list(FOLDER)?.pop() else {
            return Ok(Generation::default());
        };
        match read(store, keys, &stored.name) {
            Err(Error::Store(store::Error::NotFound(_))) if tries < RETRIES => tries += 1,
            read => return read,
        }
    }
}

/// The name of a generation in the store.
pub fn object(number: u64) -> String {
    format!("{FOLDER}/{number:016x}")
}

fn read(store: &dyn Store, keys: &Keys, name: &str) -> Result<Generation, Error> {
    let bad = |damage: Damage| Error::damaged(name, damage);
    let number = name
        .rsplit('/')
        .next()
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| bad(Damage::Magic))?;
    let mut bytes = store.get(name)?;
    let (head, sealed) = bytes
        .split_at_mut_checked(MAGIC.len())
        .ok_or_else(|| bad(Damage::Short))?;
    if head != MAGIC {
        return Err(bad(Damage::Magic));
    }
    let plain = seal::open(keys, Sealed::Generation, &number.to_be_bytes(), sealed).map_err(bad)?;
    let generation = Generation::decode(plain).map_err(|error| bad(error.into()))?;
    if generation.number == number {
        Ok(generation)
    } else {
        Err(bad(encoding::Error::Value("generation").into()))
    }
}
