// Files that are dropped onto the screen: they are among the box's downloads, and replace nothing there.

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accessible, check, cocoonbox, page, picture, says, tab, until, WAIT_MS } from "./harness.mjs";

const exec = (script) => cocoonbox("exec", "--", "bash", "-c", script);
const DOWNLOADS = "/home/user/Downloads";

/** As a browser tells of it, but for the person. */
const drag = (type, files) =>
  page.evaluate(
    (type, files) => {
      const dataTransfer = new DataTransfer();
      for (const [name, text] of files) dataTransfer.items.add(new File([text], name));
      document.querySelector(".display canvas").dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer }));
    },
    type,
    files,
  );

export async function drops() {
  await check("files dropped onto the screen are in Downloads, and replace nothing there", async () => {
    await exec(`rm -rf ${DOWNLOADS}`);
    await tab("Screen");
    await page.waitForSelector(".display canvas", { timeout: WAIT_MS });
    await says("The agents drive it");
    await drag("dragover", [["paper.txt", ""]]);
    await says("Drop to put it into Downloads");
    await accessible("screen with files over it");
    await picture("screen-drop");
    await drag("drop", [["paper.txt", "first"], ["<b>.txt", "second"]]);
    await says("In Downloads: paper.txt, <b>.txt");
    await until(() => !document.querySelector(".drop-hint, .uploads"));
    await drag("drop", [["paper.txt", "third"]]);
    await says("In Downloads: paper (1).txt");
    await accessible("screen with files that came");
    await picture("screen-dropped");
    const there = await exec(`cd ${DOWNLOADS} && cat paper.txt '<b>.txt' 'paper (1).txt' && ls -A | wc -l`);
    if (there !== "firstsecondthird3") throw new Error(`in Downloads: ${there}`);
  });
  await check("a folder dropped onto the screen is refused with a sentence", async () => {
    const here = await mkdtemp(join(tmpdir(), "proof-drops-"));
    await mkdir(join(here, "folder"));
    const { x, y } = await page.$eval(".display", (display) => {
      const { left, top, width, height } = display.getBoundingClientRect();
      return { x: left + width / 2, y: top + height / 2 };
    });
    const own = await page.createCDPSession();
    const data = { items: [], files: [join(here, "folder")], dragOperationsMask: 1 };
    for (const type of ["dragEnter", "dragOver", "drop"]) await own.send("Input.dispatchDragEvent", { type, x, y, data });
    await says("Folders are not taken here");
    await exec(`test ! -e ${DOWNLOADS}/folder`);
    await rm(here, { recursive: true });
  });
}
