// Uses the console in a real browser, beside the command line on the same box.
//
// usage: console.mjs FOLDER
//
// Each check is what a person would do and look for. Pictures go into FOLDER. The last line says how many held.

import { accessible, browser, check, click, cocoonbox, figures, foreign, page, picture, problems, say, says, tab, until, WAIT_MS } from "./harness.mjs";
import { displays } from "./displays.mjs";
import { drops } from "./drops.mjs";
import { asleep, files } from "./files.mjs";
import { keyboard } from "./keyboard.mjs";
import { keeping } from "./keeping.mjs";
import { marks } from "./marks.mjs";
import { passkeys } from "./passkeys.mjs";
import { replay } from "./replay.mjs";
import { robust } from "./robust.mjs";
import { found, search } from "./search.mjs";
import { shares } from "./shares.mjs";
import { slow } from "./slow.mjs";
import { long, screen } from "./speed.mjs";

await check("without a session the page asks to sign in, and loads nothing foreign", async () => {
  const answer = await page.goto(process.env.COCOONBOX_API);
  if (!answer.headers()["content-security-policy"].includes("default-src 'none'")) throw new Error("no policy");
  await says("Sign in");
  await accessible("sign-in");
  await picture("sign-in");
});
await check("a link signs in once, and leaves the address", async () => {
  const link = await cocoonbox("console");
  await page.goto("about:blank");
  await page.goto(link);
  await says("awake");
  if (page.url().includes("sign-in")) throw new Error(`the link is still in ${page.url()}`);
  const other = await browser.createBrowserContext();
  const second = await other.newPage();
  await second.goto(link);
  await second.waitForFunction(() => document.body.innerText.includes("was used"), { timeout: WAIT_MS });
  await other.close();
  const cookies = await page.cookies();
  if (!cookies[0]?.httpOnly || cookies[0]?.sameSite !== "Strict") throw new Error("the cookie is within reach");
});
await check("a prompt is answered, with its tool call and what that printed", async () => {
  await say("Please make a list");
  await says("The list is in");
  await until(() => document.querySelector(".tool .output")?.textContent.includes("three"));
  if ((await cocoonbox("exec", "--", "cat", "/workspace/list")) !== "one\ntwo\nthree") throw new Error("no list");
  await accessible("conversation");
  await picture("conversation");
});
await check("an approval is asked, denied with a reason, and the file stays", async () => {
  await cocoonbox("agent", "configure", "--rule", "destructive=ask");
  await say("Now remove it");
  await until(() => document.querySelector("form.approval"));
  await accessible("approval");
  await picture("approval");
  await page.locator("form.approval input").fill("I need it");
  await click("Deny");
  await says("denied: I need it");
  await says("What came of it");
  await cocoonbox("exec", "--", "test", "-e", "/workspace/list");
});
await check("another client's answer reaches the page", async () => {
  await say("And remove it now");
  await until(() => document.querySelector("form.approval"));
  const { agents } = JSON.parse(await cocoonbox("agent", "list", "--json"));
  await cocoonbox("agent", "approve", agents[0].approvals[0].approval_id ?? agents[0].approvals[0].approvalId);
  await until(() => !document.querySelector("form.approval"));
});
await check("hostile words stay words", async () => {
  await say("Something hostile");
  await until(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("link"));
  if (await page.evaluate(() => window.hacked)) throw new Error("a script ran");
});
await check("a reload and a cut network lose no letter", async () => {
  const last = () => page.evaluate(() => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText ?? "");
  await say("Now speak slowly");
  await until(() => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText.startsWith("one two three"));
  await page.reload();
  await until(() => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText.includes("ten"));
  await page.setOfflineMode(true);
  await page.setOfflineMode(false);
  await until(() => [...document.querySelectorAll(".reply .markdown")].at(-1)?.innerText.endsWith("forty"));
  const words = (await last()).split(" ");
  if (words.length !== 40) throw new Error(`${words.length} words: ${await last()}`);
});
await check("the api is restarted under the page, which goes on", async () => {
  await cocoonbox("down");
  await says("The connection is lost");
  await cocoonbox("up");
  await until(() => !document.body.innerText.includes("The connection is lost"));
  await say("Still there?");
  await says("I heard you.");
});
await check("a terminal is opened and survives a reload", async () => {
  await tab("Terminal");
  await click("New terminal");
  await page.waitForSelector(".xterm-helper-textarea", { timeout: WAIT_MS });
  const shows = (text) => until((text) => document.querySelector(".xterm-rows")?.textContent.includes(text), text);
  await shows("$");
  await page.type(".xterm-helper-textarea", "kept=$((6*7)); echo is-$kept\r");
  await shows("is-42");
  await picture("terminal");
  await page.reload();
  await page.waitForSelector(".xterm-helper-textarea", { timeout: WAIT_MS });
  await shows("is-42");
  await page.type(".xterm-helper-textarea", "echo again-$kept\r");
  await shows("again-42");
});
await check("the screen is shown, is not driven by who looks, and is taken over", async () => {
  const xterm = "xterm -bg '#c0ffee' -fg black -geometry 120x40+0+0";
  await cocoonbox("exec", "--", "bash", "-c", `setsid ${xterm} >/dev/null 2>&1 </dev/null &`);
  await tab("Screen");
  await page.waitForSelector(".display canvas", { timeout: WAIT_MS });
  // Of the terminal's colour, which nothing else has.
  const painted = () =>
    until(() => {
      const canvas = document.querySelector(".display canvas");
      if (!canvas?.width) return false;
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let pixels = 0;
      for (let at = 0; at < data.length; at += 4) {
        if (data[at] === 0xc0 && data[at + 1] === 0xff && data[at + 2] === 0xee) pixels += 1;
      }
      return pixels > data.length / 4 / 10;
    });
  const type = async (text) => {
    await page.mouse.click(400, 300);
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
  };
  await painted();
  await says("The agents drive it");
  await accessible("screen");
  await type("touch /tmp/looked");
  await click("Take over");
  await says("You drive it");
  await page.waitForSelector(".display.mine canvas", { timeout: WAIT_MS });
  await painted();
  const { holder } = JSON.parse(await cocoonbox("control", "show", "--json"));
  if (!holder?.label.includes("console")) throw new Error(`held by ${JSON.stringify(holder)}`);
  await type("touch /tmp/driven");
  await picture("screen");
  const there = "for n in $(seq 100); do test -e /tmp/driven && break; sleep 0.1; done; ls /tmp/looked /tmp/driven 2>/dev/null";
  const touched = await cocoonbox("exec", "--", "bash", "-c", `${there}; true`);
  if (touched !== "/tmp/driven") throw new Error(`typed: ${touched}`);
  await click("Hand back");
  await says("The agents drive it");
});
await screen();
await shares();
await check("history shows what happened, with keys", async () => {
  await tab("History");
  await says("agent.approval_decided");
  await says("box.running");
  await accessible("history");
  await picture("history");
});
await check("a routine is made, runs at once and is deleted", async () => {
  await tab("Routines");
  await page.locator(".new-routine input").setTimeout(WAIT_MS).fill("morning");
  await page.locator(".new-routine textarea").fill("Look around");
  await page.locator(".new-routine button.primary").click();
  await until(() => document.querySelector(".routines li")?.innerText.includes("due "));
  await click("Run now: morning");
  await until(() => document.querySelector(".routines li")?.innerText.includes("last run done"));
  await click("Runs");
  await says("by hand");
  await accessible("routines");
  await picture("routines");
  await click("Delete routine morning");
  await says("There is no routine yet.");
});
await files();
await keeping();
await marks();
await keyboard();
await passkeys();
await search();
await replay();
await robust();
await drops();
await displays();
await slow();
await check("the box is put to sleep", async () => {
  await click("Put to sleep");
  await says("asleep");
});
await asleep();
await found();
await check("the box sleeps again", async () => {
  await click("Put to sleep");
  await says("The box sleeps.");
});
await check("a box that sleeps is talked to and wakes", async () => {
  await tab("Conversation");
  await says("denied: not today");
  await picture("asleep");
  await say("Wake up");
  await until(() => document.querySelector(".box-header")?.innerText.includes("awake"));
  await until(() => [...document.querySelectorAll(".reply")].at(-1)?.innerText.includes("I heard you."));
});
await check("what is allowed always is not asked about again", async () => {
  await say("Then remove it as you like");
  await click("Allow always");
  await until(() => !document.querySelector("form.approval") && !document.querySelector(".working"));
  await say("And remove it once more");
  await until(() => {
    const last = (kind) => [...document.querySelectorAll(kind)].at(-1)?.innerText ?? "";
    return last(".prompt").includes("once more") && last(".reply").includes("What came of it") && !document.querySelector("form.approval");
  });
  await picture("always");
  await cocoonbox("agent", "configure", "--rule", "destructive=ask");
});
await check("usage and devices are shown", async () => {
  await click("Usage");
  await says("scripted-1");
  await says("Time awake");
  await accessible("usage");
  await picture("usage");
  await click("Devices");
  await says("this one");
  await accessible("devices");
  await picture("devices");
});
await check("it fits a phone, in the dark", async () => {
  await page.setViewport({ width: 390, height: 844, isMobile: true, hasTouch: true });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.goto(process.env.COCOONBOX_API);
  await says("I heard you.");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  if (wide > 390) throw new Error(`${wide} pixels wide`);
  await accessible("phone");
  await picture("phone");
  await page.setViewport({ width: 1280, height: 800 });
});
await long();
await check("a session that is revoked elsewhere is over", async () => {
  const tokens = JSON.parse(await cocoonbox("token", "list", "--json")).tokens;
  // There is another one, of whoever had no mouse.
  for (const one of tokens.filter((token) => token.label.startsWith("console") && !token.revoked)) await cocoonbox("token", "revoke", one.id);
  await says("Sign in");
});
await check("no script failed and nothing foreign was asked for", async () => {
  // The policy says when it holds back what hostile text asks for, and the browser what was cut off.
  const odd = problems.filter((text) => !/WebSocket|ERR_|Failed to load resource|inline event handler/.test(text));
  if (odd.length > 0) throw new Error(odd.join(" | "));
  if (foreign.length > 0) throw new Error(foreign.join(" "));
});

await browser.close();
const { held, checks, told } = figures;
console.log(`proof-console: ${held} of ${checks} held in ${(performance.now() / 1e3).toFixed(0)} s; ${told.join("; ")}`);
process.exitCode = held === checks ? 0 : 1;
