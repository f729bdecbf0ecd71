/** Passkeys: the browser's half of WebAuthn. What is asked for and what is believed of it is the api's. */

import { w } from "../words";
import { answered, browser, type Session } from "./session";

const PATH = "/console/passkeys";

/** Whether passkeys can be used on this page, and if not, where they can. */
export type Here = { usable: true } | { usable: false; why: "browser" | "name" } | { usable: false; why: "address"; at: string };

interface Creation extends Omit<PublicKeyCredentialCreationOptions, "challenge" | "user" | "excludeCredentials"> {
  challenge: string;
  user: { id: string; name: string; displayName: string };
  excludeCredentials: { type: "public-key"; id: string }[];
}

interface Demand extends Omit<PublicKeyCredentialRequestOptions, "challenge" | "allowCredentials"> {
  challenge: string;
}

export async function here(): Promise<Here> {
  const { origins } = await answered<{ origins: string[] }>(await fetch(PATH));
  return standing(origins, location, typeof PublicKeyCredential !== "undefined");
}

/** Passkeys are for names: a page that was opened by an address is sent to the name that leads to the same host. */
export function standing(origins: string[], page: Pick<Location, "origin" | "hostname">, knowsThem: boolean): Here {
  if (origins.includes(page.origin)) return knowsThem ? { usable: true } : { usable: false, why: "browser" };
  const isLoopback = /^(127\.|\[::1\]$|localhost$)/.test(page.hostname);
  const at = origins.find((origin) => (new URL(origin).hostname === "localhost") === isLoopback);
  return at ? { usable: false, why: "address", at } : { usable: false, why: "name" };
}

/** Makes a passkey on this device, or on one that it reaches, and tells the api of it. */
export async function add(name: string): Promise<void> {
  const asked = await ask<Creation>("registration");
  const made = await byBrowser(() =>
    navigator.credentials.create({
      publicKey: {
        ...asked,
        challenge: toBytes(asked.challenge),
        user: { ...asked.user, id: toBytes(asked.user.id) },
        excludeCredentials: asked.excludeCredentials.map((one) => ({ ...one, id: toBytes(one.id) })),
      },
    }),
  );
  const response = made.response as AuthenticatorAttestationResponse;
  const credential = {
    id: made.id,
    rawId: toText(made.rawId),
    type: made.type,
    response: { clientDataJSON: toText(response.clientDataJSON), attestationObject: toText(response.attestationObject) },
  };
  await answered(await post("", { name, credential }));
}

/** Signs in with whichever passkey the user picks. */
export async function signInByPasskey(): Promise<Session> {
  const asked = await ask<Demand>("assertion");
  const made = await byBrowser(() =>
    navigator.credentials.get({ publicKey: { ...asked, challenge: toBytes(asked.challenge), allowCredentials: [] } }),
  );
  const response = made.response as AuthenticatorAssertionResponse;
  const credential = {
    id: made.id,
    rawId: toText(made.rawId),
    type: made.type,
    response: {
      clientDataJSON: toText(response.clientDataJSON),
      authenticatorData: toText(response.authenticatorData),
      signature: toText(response.signature),
      userHandle: response.userHandle && toText(response.userHandle),
    },
  };
  return answered(await post("/session", { label: browser(), credential }));
}

async function ask<Options>(what: string): Promise<Options> {
  return answered(await post(`/${what}`, {}));
}

function post(path: string, body: unknown): Promise<Response> {
  return fetch(`${PATH}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
}

/** What browsers say of a failure is for programmers. */
async function byBrowser(act: () => Promise<Credential | null>): Promise<PublicKeyCredential> {
  const made = await act().catch((error: unknown) => {
    const name = error instanceof DOMException ? error.name : "";
    if (name === "InvalidStateError") throw new Error(w.passkeys.known);
    if (name === "NotAllowedError" || name === "AbortError") throw new Error(w.passkeys.notDone);
    throw error;
  });
  if (!(made instanceof PublicKeyCredential)) throw new Error(w.passkeys.notDone);
  return made;
}

/** Base64url without padding, as WebAuthn writes bytes in JSON. */
export function toText(bytes: ArrayBuffer): string {
  const letters = Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

export function toBytes(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
}
