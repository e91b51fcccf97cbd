import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import { HANGS_MS, until } from '../until.ts';

/** Inspects the rendered page of TensorBoard 2.21. */

export async function scalarCard(page: Page, tag: string): Promise<Locator> {
  const card = page
    .locator('scalar-card')
    .filter({ has: page.locator(`[title="${tag}"]`) })
    .first();
  // TensorBoard renders only the cards in the viewport. The filter moves the card into the viewport.
  await page.locator('input[placeholder="Filter tags (regex)"]').fill(`^${tag}$`, { timeout: HANGS_MS });
  await card.locator('line-chart').waitFor({ timeout: HANGS_MS });
  await card.scrollIntoViewIfNeeded();
  return card;
}

/**
 * Returns the share (0..1) of the chart's pixel columns that contain a color other than the grid's gray. A web worker draws the curve on a
 * canvas, so only its pixels are accessible.
 */
export async function drawnColumns(page: Page, card: Locator): Promise<number> {
  const picture = (await card.locator('.series-view').screenshot()).toString('base64');
  return page.evaluate<number>(`(${COLOURED})('${picture}')`);
}

/** This code runs in the browser, which can decode a PNG. */
const COLOURED = `async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: 'image/png' }));
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext('2d');
    if (context === null) throw new Error('no canvas to read the picture with');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    let coloured = 0;
    for (let x = 0; x < image.width; x++) {
      for (let y = 0; y < image.height; y++) {
        const [red, green, blue] = data.subarray((y * image.width + x) * 4);
        if (Math.max(red, green, blue) - Math.min(red, green, blue) > 30) {
          coloured += 1;
          break;
        }
      }
    }
    return coloured / image.width;
  }`;

export interface TooltipRow {
  readonly run: string;
  readonly value: number;
  readonly step: number;
}

/** Returns the tooltip's text with the pointer at the given share (0..1) of the chart's width. */
export async function tooltip(page: Page, card: Locator, at: number): Promise<TooltipRow> {
  const row = page.locator('.tooltip-row.closest');
  // A chart ignores the pointer while it renders.
  const cells = async (): Promise<string[] | false> => {
    const box = await card.locator('line-chart .series-view').boundingBox();
    if (box === null) {
      return false;
    }
    await page.mouse.move(box.x + 2, box.y + box.height / 2);
    await page.mouse.move(box.x + box.width * at, box.y + box.height / 2, { steps: 5 });
    await row.waitFor({ timeout: 2_000 });
    const texts = (await row.locator('td, .tooltip-cell').allInnerTexts()).map((text) => text.trim()).filter((text) => text !== '');
    return texts.length >= 4 && texts;
  };
  const [run = '', , value = '', step = ''] = await until(cells, { describe: () => card.innerText() });
  return { run, value: Number(value.replace('−', '-')), step: Number(step.replaceAll(',', '')) };
}

/** Checks that the curve spans the whole chart and shows the logged values at several positions. */
export async function expectCurve(page: Page, tag: string, logged: (step: number) => number): Promise<void> {
  const card = await scalarCard(page, tag);
  await expect.poll(() => drawnColumns(page, card), { timeout: HANGS_MS }).toBeGreaterThan(0.7);
  for (const at of [0.2, 0.5, 0.8]) {
    const { value, step } = await tooltip(page, card, at);
    // TensorBoard shows four significant digits.
    expect(Math.abs(value - logged(step)) / Math.abs(logged(step))).toBeLessThan(1e-3);
  }
}
