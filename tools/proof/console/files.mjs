// Files of a box, today's and saved ones: looked at, put in, taken out, given back.

import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { watched } from "./memory.mjs";
import { accessible, browser, check, click, cocoonbox, page, picture, saves, says, tab, tell, until, WAIT_MS } from "./harness.mjs";

const HOSTILE = [
  "<img src=x onerror=window.hacked=1>.txt",
  "\"><script>window.hacked=1<_script>",
  "javascript:window.hacked=1",
  "${window.hacked=1}",
  "evil\u202egnp.exe",
  "line\nbreak",
  "-rf",
  "$(touch hacked)",
  "né 名前 🙂",
];
const LARGE_BYTES = 200 * 1024 * 1024;
/** Of an archive that is watched while it is made. */
const MUCH_BYTES = 240 * 1024 * 1024;
const MANY = 500;
const GROWN_BYTES_MAX = 120 * 1024 * 1024;
const run = promisify(execFile);

const exec = (script) => cocoonbox("exec", "--", "bash", "-c", script);
const named = (name) => page.locator(`::-p-aria([name="${name}"])`).setTimeout(WAIT_MS);
const cell = (name) => page.locator(`.entries .name button ::-p-text(${name})`).setTimeout(WAIT_MS).click();
const names = () => page.$$eval(".entries .name bdi:first-of-type", (all) => all.map((one) => one.textContent));
const hash = (bytes) => createHash("sha256").update(bytes).digest("hex");

export async function files() {
  const here = await mkdtemp(join(tmpdir(), "proof-files-"));
  const downloads = join(here, "downloads");
  await mkdir(downloads);
  const wire = await browser.target().createCDPSession();
  await wire.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
  const downloaded = async (name) => {
    for (let tries = 0; tries < 600; tries += 1) {
      const found = await stat(join(downloads, name)).catch(() => undefined);
      if (found) return readFile(join(downloads, name));
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    throw new Error(`${name} was not downloaded`);
  };

  await check("files of the box are browsed and looked into, and hostile names stay names", async () => {
    const script = `import os,sys,zlib,struct
os.makedirs('/workspace/app/deep', exist_ok=True); os.chdir('/workspace/app')
for name in ${JSON.stringify(HOSTILE)}: open(name, 'w').write('harmless')
open(b'no-\\xff-text', 'wb').write(b'x')
open('notes.txt', 'w').write(''.join(f'line {n}\\n' for n in range(40)))
open('page.svg', 'w').write('<svg xmlns="http://www.w3.org/2000/svg" onload="window.hacked=1"/>')
def chunk(kind, data): return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
rows = b''.join(b'\\0' + bytes((x, y * 2, 160)[c] for x in range(120) for c in range(3)) for y in range(120))
open('picture', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 120, 120, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))
`;
    await cocoonbox("exec", "--", "python3", "-c", script);
    await tab("Files");
    await cell("/workspace");
    await cell("app");
    await says("notes.txt");
    const shown = await names();
    const wanted = ["evil\\u{202e}gnp.exe", "line\\u{a}break", "no-\\xff-text", HOSTILE[0], HOSTILE[1], "-rf", "$(touch hacked)"];
    for (const name of wanted) if (!shown.includes(name)) throw new Error(`${name} is not among ${JSON.stringify(shown)}`);
    if (shown[0] !== "deep") throw new Error(`first comes ${shown[0]}`);
    await cell("no-\\\\xff-text");
    await until(() => document.querySelector(".preview pre")?.textContent === "x");
    await cell("page.svg");
    await until(() => document.querySelector(".preview pre")?.textContent.includes("onload"));
    await cell("picture");
    await until(() => document.querySelector(".preview img")?.naturalWidth === 120);
    await accessible("files");
    await picture("files");
    await page.keyboard.press("Escape");
    await until(() => !document.querySelector(".preview"));
    if (await page.evaluate(() => window.hacked)) throw new Error("a script ran");
    await exec("test ! -e /workspace/app/hacked");
  });

  await check("a folder is dropped into the box, and what is there is asked about", async () => {
    await mkdir(join(here, "dropped/inner"), { recursive: true });
    await writeFile(join(here, "dropped/a.txt"), "first");
    await writeFile(join(here, "dropped/inner/b.txt"), "second");
    const { x, y } = await page.$eval(".folder", (folder) => {
      const { left, top, width } = folder.getBoundingClientRect();
      return { x: left + width / 2, y: top + 40 };
    });
    const own = await page.createCDPSession();
    const data = { items: [], files: [join(here, "dropped")], dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver"]) await own.send("Input.dispatchDragEvent", { type, x, y, data });
    await until(() => document.querySelector(".drop-hint"));
    await picture("files-drop");
    await own.send("Input.dispatchDragEvent", { type: "drop", x, y, data });
    await until(() => [...document.querySelectorAll(".entries .name bdi")].some((one) => one.textContent === "dropped"));
    if ((await exec("cat /workspace/app/dropped/a.txt /workspace/app/dropped/inner/b.txt")) !== "firstsecond") throw new Error("not all of it came");
    await writeFile(join(here, "notes.txt"), "other");
    await (await page.$(".folder-head input[type=file]")).uploadFile(join(here, "notes.txt"));
    await says("is there already");
    await click("Cancel");
    if ((await exec("head -n1 /workspace/app/notes.txt")) !== "line 0") throw new Error("it was replaced");
  });

  await check("200 MB go in and come out as they were", async () => {
    const large = randomBytes(LARGE_BYTES);
    await writeFile(join(here, "large.bin"), large);
    let from = performance.now();
    await (await page.$(".folder-head input[type=file]")).uploadFile(join(here, "large.bin"));
    await page.waitForSelector(".uploads progress", { timeout: WAIT_MS });
    await page.waitForFunction(
      () => [...document.querySelectorAll(".entries .name bdi")].some((one) => one.textContent === "large.bin"),
      { timeout: 180_000 },
    );
    const up = (LARGE_BYTES / 1e6 / (performance.now() - from)) * 1e3;
    const sum = (await exec("sha256sum /workspace/app/large.bin; ls -A /workspace/app | grep -c uploading || true")).split(/\s+/);
    if (sum[0] !== hash(large)) throw new Error("other bytes are in the box");
    if (sum[2] !== "0") throw new Error("a part was left behind");
    from = performance.now();
    await click("Download large.bin");
    const back = await downloaded("large.bin");
    const down = (LARGE_BYTES / 1e6 / (performance.now() - from)) * 1e3;
    if (hash(back) !== hash(large)) throw new Error("other bytes came back");
    await exec("rm /workspace/app/large.bin");
    tell(`files ${up.toFixed(0)} MB/s in, ${down.toFixed(0)} MB/s out`);
    return `${up.toFixed(0)} MB/s in, ${down.toFixed(0)} MB/s out`;
  });

  await check("things are made, renamed and deleted, by keyboard too", async () => {
    await click("New folder");
    await page.keyboard.type("made <here>");
    await page.keyboard.press("Enter");
    await click("Pick made <here>");
    await click("Rename");
    await page.keyboard.down("Control");
    await page.keyboard.press("a");
    await page.keyboard.up("Control");
    await page.keyboard.type("../up");
    await page.keyboard.press("Enter");
    await says("A name has no slash");
    await page.keyboard.down("Control");
    await page.keyboard.press("a");
    await page.keyboard.up("Control");
    await page.keyboard.type("renamed");
    await page.keyboard.press("Enter");
    await until(() => !document.querySelector(".asking"));
    await exec("test -d /workspace/app/renamed && test ! -e '/workspace/app/made <here>'");
    await click("Pick renamed");
    await click("Remove");
    await picture("files-remove");
    await click("Remove now");
    await until(() => !document.querySelector(".asking"));
    await exec("test ! -e /workspace/app/renamed");
  });

  await check("a moment is saved, gone back to, and compared with now", async () => {
    const before = (await saves())[0]?.id;
    await click("Save now");
    await until((before) => [...document.querySelectorAll(".track .save")].some((save) => save.dataset.id > before), before ?? "");
    await says("Last saved at");
    await exec("cd /workspace/app && sed -i 's/^line 20$/line twenty/' notes.txt && rm picture && echo new >later.txt");
    // The line of time has the keyboard.
    await page.focus(".track");
    await page.keyboard.press("ArrowLeft");
    await says("saved by hand");
    await says("Restore this folder");
    await until(() => [...document.querySelectorAll(".entries .name bdi")].some((one) => one.textContent === "picture"));
    if ((await names()).includes("later.txt")) throw new Error("it was not there then");
    await cell("notes.txt");
    await until(() => document.querySelector(".preview pre")?.textContent.includes("line 20\n"));
    await accessible("timeline");
    await picture("timeline");
    await page.reload();
    await until(() => [...document.querySelectorAll(".entries .name bdi")].some((one) => one.textContent === "picture"));
    await click("Compare with now");
    await says("3 differences");
    await page.locator(".differences ::-p-text(/workspace/app/notes.txt)").click();
    await until(() => document.querySelector(".diff .removed")?.textContent === "- line 20\n");
    if ((await page.$eval(".diff .added", (line) => line.textContent)) !== "+ line twenty\n") throw new Error("no such line");
    await accessible("changes");
    await picture("changes");
    await click("Back to the files");
    await click("Download notes.txt");
    if (!(await downloaded("notes.txt")).includes("line 20\n")) throw new Error("not the file of then");
  });

  await check("a folder of a saved moment is downloaded as an archive, which unpacks to what was saved and nowhere else", async () => {
    await page.locator(".crumbs ::-p-text(workspace)").setTimeout(WAIT_MS).click();
    await click("Download app");
    const into = join(here, "unpacked");
    await mkdir(into);
    await downloaded("app.tar");
    await run("tar", ["-xf", join(downloads, "app.tar"), "-C", into]);
    const found = await readdir(join(into, "app"), { encoding: "buffer" });
    const has = (name) => found.some((one) => one.equals(Buffer.from(name, "latin1")));
    for (const name of HOSTILE.map((name) => Buffer.from(name).toString("latin1"))) if (!has(name)) throw new Error(`${JSON.stringify(name)} is not in it`);
    if (!has("no-\xff-text")) throw new Error("what is no text is not in it");
    if (has("later.txt")) throw new Error("it is of today");
    if (!(await readFile(join(into, "app/notes.txt"), "utf8")).includes("line 20\n")) throw new Error("notes.txt is not that of then");
    if ((await readFile(join(into, "app/dropped/inner/b.txt"), "utf8")) !== "second") throw new Error("what lies deeper is not in it");
    if ((await readdir(into)).length !== 1) throw new Error("something lies beside it");
    await cell("app");
  });
  await check("an archive is written as it is made: the page holds little of it", async () => {
    await exec(`mkdir -p /workspace/much/many && cd /workspace/much && head -c ${MUCH_BYTES} /dev/urandom >large && for n in $(seq ${MANY}); do echo $n >many/$n; done`);
    const sum = (await exec("sha256sum /workspace/much/large")).split(" ")[0];
    await cocoonbox("save");
    const [{ id }] = await saves();
    await until((id) => document.querySelector(`.track .save[data-id="${id}"]`), id);
    const back = await page.evaluate(() => location.hash);
    await page.evaluate((id) => (location.hash = `${location.hash.split("/").slice(0, 4).join("/")}/${id}/workspace`), id);
    await named("Download much").wait();
    const memory = await watched();
    const from = performance.now();
    await click("Download much");
    await downloaded("much.tar");
    const rate = (MUCH_BYTES / 1e6 / (performance.now() - from)) * 1e3;
    const grown = memory.end();
    const into = join(here, "much");
    await mkdir(into);
    await run("tar", ["-xf", join(downloads, "much.tar"), "-C", into]);
    if (hash(await readFile(join(into, "much/large"))) !== sum) throw new Error("other bytes came");
    if ((await readdir(join(into, "much/many"))).length !== MANY) throw new Error("not all of the small files came");
    if (grown > GROWN_BYTES_MAX) throw new Error(`the page grew by ${(grown / 1e6).toFixed(0)} MB`);
    await exec("rm -r /workspace/much");
    await page.evaluate((back) => (location.hash = back), back);
    await says("notes.txt");
    tell(`archive of a save ${rate.toFixed(0)} MB/s with ${(grown / 1e6).toFixed(0)} MB in the page`);
    return `${rate.toFixed(0)} MB/s with ${MANY} small files, the page grew by ${(grown / 1e6).toFixed(0)} MB`;
  });

  await check("files are restored beside today's, in their place, and that is undone", async () => {
    await click("Pick picture");
    await click("Pick notes.txt");
    await click("Restore 2");
    await says("2 files are in /home/user/Restored/");
    await picture("restored");
    const target = (await exec("ls -d /home/user/Restored/*")).trim();
    await exec(`test -s ${target}/workspace/app/picture`);
    await click("Restore in place");
    await says("one click undoes it");
    await click("Put it back");
    await says("back in place");
    if ((await exec("cat /workspace/app/notes.txt")).includes("twenty")) throw new Error("notes.txt is still today's");
    await click("Undo");
    await says("1 file that was not there is gone");
    await exec("test ! -e /workspace/app/picture");
    if (!(await exec("cat /workspace/app/notes.txt")).includes("twenty")) throw new Error("it was not undone");
    await named("Now").click();
    await says("Files of this moment");
  });

  await check("files fit a phone, in the dark", async () => {
    await page.setViewport({ width: 390, height: 844, isMobile: true, hasTouch: true });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
    await page.reload();
    await says("notes.txt");
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    if (wide > 390) throw new Error(`${wide} pixels wide`);
    await picture("files-phone");
    await cell("notes.txt");
    await until(() => document.querySelector(".preview pre"));
    await accessible("files on a phone");
    await picture("files-phone-preview");
    await page.keyboard.press("Escape");
    await page.emulateMediaFeatures([]);
    await page.setViewport({ width: 1280, height: 800 });
  });
  await rm(here, { recursive: true });
}

/** Of a box that sleeps. */
export async function asleep() {
  await check("the last picture of a box that sleeps is shown", async () => {
    await tab("Screen");
    await says("As it was at");
    await until(() => document.querySelector(".last-picture img")?.naturalWidth === 1280);
    await accessible("screen-asleep");
    await picture("screen-asleep");
  });
  await check("files of a box that sleeps are looked into", async () => {
    await tab("Files");
    await says("The box sleeps. These are its files");
    await cell("/workspace");
    await cell("app");
    await cell("notes.txt");
    await until(() => document.querySelector(".preview pre")?.textContent.includes("line 1\n"));
    await picture("files-asleep");
    await page.keyboard.press("Escape");
  });
  await check("a box that sleeps is forked from what is looked at", async () => {
    await click("Fork from here");
    await page.keyboard.type("twin");
    await picture("fork");
    await page.keyboard.press("Enter");
    await until(() => document.querySelector(".box-header h1")?.textContent === "twin");
    await until(() => document.querySelector(".box-header")?.innerText.includes("awake"));
    await says("The list is in");
    const there = await cocoonbox("exec", "--box", "twin", "--", "head", "-n1", "/workspace/app/notes.txt");
    if (there !== "line 0") throw new Error(`its file begins with ${there}`);
    await cocoonbox("delete", "--yes", "twin");
    await until(() => document.querySelectorAll(".boxes li").length === 1);
    await page.locator(".boxes a").click();
  });
}
