import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { findBrowser, launchBrowser, NO_BROWSER } from './launch-browser.ts';

/** Headless browser of one test file, started on first use. */
let started: Promise<Browser> | null = null;

afterAll(async () => (await started)?.close());

/**
 * Returns a new browser context with its own cookies and cache. The context closes when the test ends. If no browser is installed, the test
 * is skipped; on CI machines (`CI` is set) it fails.
 */
export async function openBrowser(context: TestContext): Promise<Browser> {
  const isCi = process.env.CI !== undefined && process.env.CI !== '';
  if (!isCi && (await findBrowser()) === null) {
    return context.skip(NO_BROWSER);
  }
  started ??= launchBrowser();
  const browser = await started;
  context.onTestFinished(async () => {
    await Promise.all(browser.contexts().map((each) => each.close()));
  });
  return browser;
}
