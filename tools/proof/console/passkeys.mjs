// A passkey in a real browser, kept by an authenticator that Chromium makes up.

import { join } from "node:path";
import { axed, browser, check, cocoonbox, FOLDER, WAIT_MS } from "./harness.mjs";

const NAME = "made-up key";
const AUTHENTICATOR = {
  protocol: "ctap2",
  ctap2Version: "ctap2_1",
  transport: "internal",
  hasResidentKey: true,
  hasUserVerification: true,
  isUserVerified: true,
  automaticPresenceSimulation: true,
};

export async function passkeys() {
  await check("a passkey is added at the name of the host, signs in, and does not once it is removed", async () => {
    const link = await cocoonbox("console");
    const other = await browser.createBrowserContext();
    const page = await other.newPage();
    try {
      await page.setViewport({ width: 1280, height: 800 });
      return await journey(page, link);
    } catch (error) {
      await page.screenshot({ path: join(FOLDER, "wrong-passkeys.png") });
      throw error;
    } finally {
      await other.close();
    }
  });
}

async function journey(page, link) {
  const until = (look, ...args) => page.waitForFunction(look, { timeout: WAIT_MS, polling: 50 }, ...args);
  const says = (text) => until((text) => document.body.innerText.includes(text), text);
  const click = (name) => page.locator(`::-p-aria([name="${name}"])`).setTimeout(WAIT_MS).click();
  const problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  const named = process.env.COCOONBOX_API.replace("127.0.0.1", "localhost");

  // By its address the page has no passkeys, and says where it has.
  await page.goto(process.env.COCOONBOX_API);
  await says(`They work at ${named}`);
  await axed(page, "sign-in at an address");
  await page.goto("about:blank");
  await page.goto(link);
  await click("Devices");
  await says(`They work at ${named}`);
  await axed(page, "devices at an address");
  await click(`Open ${named}`);
  await until((named) => location.origin === named && !location.hash.includes("sign-in"), named);

  const devtools = await page.createCDPSession();
  await devtools.send("WebAuthn.enable");
  const { authenticatorId } = await devtools.send("WebAuthn.addVirtualAuthenticator", { options: AUTHENTICATOR });
  const held = async () => (await devtools.send("WebAuthn.getCredentials", { authenticatorId })).credentials;
  await click("Devices");
  await page.locator('[aria-label="Name of the passkey"]').fill(NAME);
  await click("Add a passkey");
  await says("never used");
  const [kept] = await held();
  if (!kept?.isResidentCredential || kept.rpId !== "localhost") throw new Error(`kept ${JSON.stringify(kept)}`);
  await axed(page, "devices with a passkey");
  await page.screenshot({ path: join(FOLDER, "passkeys.png") });
  // The same device is not taken twice.
  await click("Add a passkey");
  await says("a passkey of yours on it already");
  const listed = JSON.parse(await cocoonbox("passkey", "list", "--json")).passkeys;
  if (listed.length !== 1 || listed[0].name !== NAME) throw new Error(`listed: ${JSON.stringify(listed)}`);

  await click("Sign out");
  await says("Sign in with a passkey");
  await axed(page, "sign-in with a passkey");
  await page.screenshot({ path: join(FOLDER, "sign-in-by-passkey.png") });
  // Somebody who is not known to the device is nobody here either.
  await devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: false });
  await click("Sign in with a passkey");
  await says("No passkey was used");
  await devtools.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: true });
  await click("Sign in with a passkey");
  await page.locator("aside ::-p-text(Sign out)").setTimeout(WAIT_MS).wait();
  const [cookie] = (await page.cookies()).filter(({ name }) => name === "cocoonbox_session");
  if (!cookie?.httpOnly || cookie.sameSite !== "Strict") throw new Error("the cookie is within reach");
  await click("Devices");
  await says("last used");
  if ((await held())[0].signCount < 2) throw new Error("it does not count");

  // Who signs with fewer than are known is another one with the same key.
  const copy = { ...(await held())[0], signCount: 0 };
  await devtools.send("WebAuthn.removeCredential", { authenticatorId, credentialId: copy.credentialId });
  await devtools.send("WebAuthn.addCredential", { authenticatorId, credential: copy });
  await click("Sign out");
  await click("Sign in with a passkey");
  await says("somebody may hold a copy of it");
  await devtools.send("WebAuthn.removeCredential", { authenticatorId, credentialId: copy.credentialId });
  await devtools.send("WebAuthn.addCredential", { authenticatorId, credential: { ...copy, signCount: 100 } });
  await click("Sign in with a passkey");
  await click("Devices");
  await click(`Remove passkey ${NAME}`);
  await until((name) => !document.body.innerText.includes(name), NAME);
  await click("Sign out");
  await click("Sign in with a passkey");
  await says("not known here");
  await axed(page, "sign-in refused");
  const audit = await cocoonbox("audit");
  for (const kind of ["added", "used", "refused", "removed"]) {
    if (!audit.includes(`user.passkey_${kind}`)) throw new Error(`the audit knows nothing of user.passkey_${kind}`);
  }
  if (problems.length > 0) throw new Error(problems.join(" | "));
}
