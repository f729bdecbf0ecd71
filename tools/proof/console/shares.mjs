// A link that shows the screen to whoever has it, in a browser that knows nothing else, until it is ended.

import { join } from "node:path";
import { accessible, axed, browser, check, click, FOLDER, page, picture, until, WAIT_MS } from "./harness.mjs";

export async function shares() {
  await check("a link shows the screen to who has it, and nothing once it is ended", async () => {
    await click("Share");
    await page.locator(".share-panel form input").setTimeout(WAIT_MS).fill("demo");
    await page.locator(".share-panel form button.primary").click();
    await page.waitForSelector(".share-panel li input", { timeout: WAIT_MS });
    const link = await page.$eval(".share-panel li input", (input) => input.value);
    await accessible("share panel");
    await picture("share");
    const elsewhere = await browser.createBrowserContext();
    try {
      const guest = await elsewhere.newPage();
      await guest.setViewport({ width: 1280, height: 800 });
      await guest.goto(link);
      const says = (text) => guest.waitForFunction((text) => document.body.innerText.includes(text), { timeout: WAIT_MS }, text);
      await says("You can look, and do nothing.");
      // Not black all over: the picture is there.
      await guest.waitForFunction(
        () => {
          const canvas = document.querySelector("canvas");
          if (!canvas?.width) return false;
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return data.some((value, at) => at % 4 !== 3 && value > 40);
        },
        { timeout: WAIT_MS, polling: 200 },
      );
      if (guest.url().includes("cbs_")) throw new Error("the secret is still in the address");
      await axed(guest, "guest page");
      await guest.screenshot({ path: join(FOLDER, "guest.png") });
      await click("End: demo");
      await says("This share has ended");
    } finally {
      await elsewhere.close();
    }
    await page.locator(".share-panel button[aria-label]").click();
    await until(() => !document.querySelector(".share-panel"));
  });
}
