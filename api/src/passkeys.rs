//! Passkeys: this side of WebAuthn, the "relying party" (<https://www.w3.org/TR/webauthn-3/>, section 7).
//!
//! What browsers send is read and checked here, with no clock but what is handed in, no store and no HTTP; what
//! follows from it is decided in the user's log (`commands/user/passkey.rs`). No attestation is asked for: whose make
//! an authenticator is does not matter here, only that who added it holds its key.

pub mod authenticator;
pub mod cbor;
pub mod ceremony;
pub mod challenge;
pub mod key;
pub mod place;

pub use authenticator::AuthenticatorData;
pub use ceremony::{Assertion, Known, Refused, Registration, Sort};
pub use challenge::{Challenge, ChallengeError, Challenges, Purpose};
pub use key::PublicKey;
pub use place::{BadOrigin, Place, Places};
