//! Passkeys in a browser: asked for, added, and signed in with. `Users` lists and removes them.
//!
//! | | asks for | answer |
//! |---|---|---|
//! | `GET /console/passkeys` | | `{"origins": […]}`: where they work |
//! | `POST /console/passkeys/registration` | a session | `PublicKeyCredentialCreationOptionsJSON` |
//! | `POST /console/passkeys` | a session; `{"name", "credential": RegistrationResponseJSON}` | `{"passkey_id"}` |
//! | `POST /console/passkeys/assertion` | | `PublicKeyCredentialRequestOptionsJSON` |
//! | `POST /console/passkeys/session` | `{"label", "credential": AuthenticationResponseJSON}` | as a link's, with the cookie |

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use cocoonbox_commands::user::CHALLENGE_LIFE_US;
use serde::Deserialize;
use serde_json::json;
use zeroize::Zeroizing;

use super::{
    Console,
    origin::Asked,
    session::{COOKIE_S, Refusal, cookie, label, session, signed_in},
};
use crate::{
    accounts::{Account, AccountError, Named},
    auth::Caller,
    passkeys::{
        Assertion, Challenge, ChallengeError, Challenges, Place, Places, Purpose, Refused,
        Registration, key::ALGORITHMS,
    },
    users::from_account,
};

/// Holds the challenge that a browser was given.
pub(super) const COOKIE: &str = "cocoonbox_passkey";
const MICROS_IN_MS: i64 = 1_000;
const MICROS_IN_S: i64 = 1_000_000;

/// What passkeys stand on here.
pub struct Passkeys {
    places: Places,
    challenges: Challenges,
}

#[derive(Deserialize)]
pub(super) struct Added {
    name: String,
    credential: Registration,
}

#[derive(Deserialize)]
pub(super) struct SignedIn {
    /// What the browser calls itself, for the list of tokens.
    #[serde(default)]
    label: String,
    credential: Assertion,
}

type Browser = Option<Extension<Asked>>;

/// Says where passkeys work.
pub(super) async fn places(State(console): State<Console>) -> Response {
    let origins: Vec<&str> = console.passkeys.places.origins().collect();
    Json(json!({ "origins": origins })).into_response()
}

/// Asks the browser to make a passkey.
pub(super) async fn ask_for_new(State(console): State<Console>, headers: HeaderMap) -> Response {
    answer(async {
        let (account, token_id) = signed_in(&console, &headers).await?;
        let place = place(&console.passkeys, &headers)?;
        let challenge = console.challenge(Purpose::Add {
            user_id: &account.user_id,
            token_id: &token_id,
        })?;
        Ok(asked(
            &headers,
            &challenge,
            to_create(&account, place, &challenge),
        ))
    })
    .await
}

/// Adds what the browser has made.
pub(super) async fn add(
    State(console): State<Console>,
    headers: HeaderMap,
    browser: Browser,
    Json(added): Json<Added>,
) -> Response {
    answer(async {
        let (account, token_id) = signed_in(&console, &headers).await?;
        let place = place(&console.passkeys, &headers)?;
        let purpose = Purpose::Add {
            user_id: &account.user_id,
            token_id: &token_id,
        };
        let challenge = console.asked(browser, purpose)?;
        let named = Named {
            name: added.name.trim().to_owned(),
            made: added.credential.check(&challenge, place).map_err(refused)?,
        };
        let caller = Caller::User {
            user_id: account.user_id.clone(),
            token_id: token_id.clone(),
            admin: account.state.admin,
        };
        let accounts = &console.accounts;
        let passkey_id = accounts
            .add_passkey(&account.user_id, named, place, &challenge, &caller)
            .await
            .map_err(not_done)?;
        let body = Json(json!({ "passkey_id": passkey_id }));
        Ok(([(header::SET_COOKIE, no_challenge(&headers))], body).into_response())
    })
    .await
}

/// Asks the browser to sign in with a passkey, whichever its user picks.
pub(super) async fn ask_who(State(console): State<Console>, headers: HeaderMap) -> Response {
    answer(async {
        let place = place(&console.passkeys, &headers)?;
        let challenge = console.challenge(Purpose::SignIn)?;
        let options = json!({
            "challenge": challenge.text(),
            "rpId": place.host,
            "timeout": CHALLENGE_LIFE_US / MICROS_IN_MS,
            "userVerification": "required",
            "allowCredentials": [],
        });
        Ok(asked(&headers, &challenge, options))
    })
    .await
}

/// Gives a session for what a passkey has signed.
pub(super) async fn begin(
    State(console): State<Console>,
    headers: HeaderMap,
    browser: Browser,
    Json(signed): Json<SignedIn>,
) -> Response {
    answer(async {
        let place = place(&console.passkeys, &headers)?;
        let challenge = console.asked(browser, Purpose::SignIn)?;
        let label = label(&signed.label);
        let signing = console
            .accounts
            .sign_in(&signed.credential, place, &challenge, &label);
        let issued = signing.await.map_err(not_done)?;
        let cookies = [
            cookie(&headers, &issued.token.reveal(), COOKIE_S),
            no_challenge(&headers),
        ];
        let cookies = cookies.map(|cookie| (header::SET_COOKIE, cookie));
        let body = Json(session(&issued.account, issued.token_id));
        Ok((axum::response::AppendHeaders(cookies), body).into_response())
    })
    .await
}

impl Passkeys {
    /// `key` is the same for all processes of an installation, and for challenges only.
    pub fn new(places: Places, key: Zeroizing<[u8; 32]>) -> Self {
        Self {
            places,
            challenges: Challenges::new(key),
        }
    }
}

async fn answer(act: impl Future<Output = Result<Response, Refusal>>) -> Response {
    act.await.unwrap_or_else(IntoResponse::into_response)
}

impl Console {
    fn challenge(&self, purpose: Purpose<'_>) -> Result<Challenge, Refusal> {
        let made = self.passkeys.challenges.make(purpose, self.clock.now_us());
        made.map_err(|error| Refusal {
            code: StatusCode::INTERNAL_SERVER_ERROR,
            reason: "INTERNAL".to_owned(),
            message: error.to_string(),
        })
    }

    /// What this browser was asked.
    fn asked(&self, browser: Browser, purpose: Purpose<'_>) -> Result<Challenge, Refusal> {
        let text = browser.map(|Extension(Asked(text))| text);
        let challenges = &self.passkeys.challenges;
        let opened = match text {
            Some(text) => challenges.open(&text, purpose, self.clock.now_us()),
            None => Err(ChallengeError::NotOurs),
        };
        opened.map_err(|error| Refusal {
            code: StatusCode::FORBIDDEN,
            reason: match error {
                ChallengeError::NotOurs => "NOT_ASKED".to_owned(),
                ChallengeError::Expired => "TOO_LATE".to_owned(),
            },
            message: error.to_string(),
        })
    }
}

/// The page that asks. That it is ours was looked at before; that it is where passkeys work is looked at here.
fn place<'a>(passkeys: &'a Arc<Passkeys>, headers: &HeaderMap) -> Result<&'a Place, Refusal> {
    let origin = headers.get(header::ORIGIN);
    let origin = origin.and_then(|origin| origin.to_str().ok());
    let place = origin.and_then(|origin| passkeys.places.at(origin));
    place.ok_or_else(|| {
        let all: Vec<&str> = passkeys.places.origins().collect();
        let all = all.join(", ");
        Refusal {
            code: StatusCode::FORBIDDEN,
            reason: "NO_PASSKEYS_HERE".to_owned(),
            message: format!(
                "passkeys are for names, not for addresses; open the console at {all}"
            ),
        }
    })
}

fn to_create(account: &Account, place: &Place, challenge: &Challenge) -> serde_json::Value {
    let sort = "public-key";
    let known = account.state.live_passkeys();
    let known = known.filter(|(_, passkey)| passkey.host == place.host);
    let known: Vec<_> = known
        .map(|(_, passkey)| json!({"type": sort, "id": BASE64.encode(&passkey.credential_id)}))
        .collect();
    json!({
        "rp": {"id": place.host, "name": "cocoonbox"},
        "user": {
            "id": BASE64.encode(&account.user_id),
            "name": account.state.name,
            "displayName": account.state.name,
        },
        "challenge": challenge.text(),
        "pubKeyCredParams": ALGORITHMS.map(|alg| json!({"type": sort, "alg": alg})),
        "timeout": CHALLENGE_LIFE_US / MICROS_IN_MS,
        "excludeCredentials": known,
        "authenticatorSelection": {
            "residentKey": "required",
            "requireResidentKey": true,
            "userVerification": "required",
        },
        "attestation": "none",
    })
}

fn asked(headers: &HeaderMap, challenge: &Challenge, options: serde_json::Value) -> Response {
    let cookie = challenge_cookie(headers, &challenge.text(), CHALLENGE_LIFE_US / MICROS_IN_S);
    ([(header::SET_COOKIE, cookie)], Json(options)).into_response()
}

fn no_challenge(headers: &HeaderMap) -> String {
    challenge_cookie(headers, "", 0)
}

fn challenge_cookie(headers: &HeaderMap, text: &str, max_age_s: i64) -> String {
    let secure = super::session::secure(headers);
    format!(
        "{COOKIE}={text}; Path=/console/passkeys; HttpOnly; SameSite=Strict; Max-Age={max_age_s}{secure}"
    )
}

fn refused(refused: Refused) -> Refusal {
    not_done(AccountError::Refused(refused))
}

fn not_done(error: AccountError) -> Refusal {
    Refusal::from(&from_account(error))
}
