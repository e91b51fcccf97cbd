/**
 * `npm run bench -- paint [--loads N] [--output json]`: loads the page of a job with 200 tasks in Chromium, at full processor speed and at a quarter of it.
 * Measures four times: the first contentful paint, the complete content, finding a task by typing, and the longest frame while the
 * page polls.
 */
import { parseArgs } from 'node:util';
import type { Browser } from 'playwright-core';
import { launchBrowser } from '../integration-tests/browser/launch-browser.ts';
import { servePage } from '../integration-tests/browser/page-server.ts';
import { largeScene } from '../integration-tests/browser/page-views.ts';
import { type Figure, showFigures } from './figures.ts';
import { median } from './median.ts';

const { values } = parseArgs({ options: { loads: { type: 'string', default: '5' }, output: { type: 'string', default: 'text' } } });

/** Expressions to evaluate in the page. They are strings because the code outside the page compiles without DOM types. */
const PAINTED = `[performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity, performance.now()]`;
const LONGEST_FRAME = `new Promise((resolve) => {
  let worst = 0;
  let last = performance.now();
  const end = last + 5000;
  const frame = (now) => {
    worst = Math.max(worst, now - last);
    last = now;
    if (now < end) requestAnimationFrame(frame);
    else resolve(worst);
  };
  requestAnimationFrame(frame);
})`;

interface Times {
  readonly paint: number;
  readonly content: number;
  readonly typing: number;
  readonly frame: number;
}

const LABELS: Readonly<Record<keyof Times, string>> = {
  paint: 'first paint',
  content: 'content',
  typing: 'task found by typing',
  frame: 'longest frame',
};

/** All times are in ms. */
async function measure(browser: Browser, url: string, slower: number): Promise<Times> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  await session.send('Emulation.setCPUThrottlingRate', { rate: slower });
  await page.goto(url);
  await page.locator('.tiles').waitFor();
  const [paint, content] = await page.evaluate<[number, number]>(PAINTED);
  await page.goto(`${url}#tasks`);
  await page.locator('tr.task').nth(199).waitFor();
  const started = performance.now();
  await page.getByLabel('Filter').pressSequentially('launching');
  await page.locator('tr.task').nth(1).waitFor({ state: 'detached' });
  const typing = performance.now() - started;
  await page.getByLabel('Filter').fill('');
  const frame = await page.evaluate<number>(LONGEST_FRAME);
  await context.close();
  return { paint, content, typing, frame };
}

const browser = await launchBrowser();
const server = await servePage(largeScene());
try {
  for (const slower of [1, 4]) {
    const all: Times[] = [];
    for (let load = 0; load < Math.max(1, Number(values.loads)); load++) {
      all.push(await measure(browser, server.url, slower));
    }
    const figures = (Object.keys(LABELS) as (keyof Times)[]).map(
      (key): Figure => ({
        what: `processor / ${slower}: ${LABELS[key]}`,
        value: median(all.map((each) => each[key])),
        unit: 'ms',
      }),
    );
    showFigures('paint', figures, values.output);
  }
} finally {
  server.close();
  await browser.close();
}
