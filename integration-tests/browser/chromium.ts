import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { findBrowser, launchBrowser, NO_BROWSER } from './launch-browser.ts';

/** The headless browser of this test file. The first test that uses a browser starts it. */
let started: Promise<Browser> | null = null;

afterAll(async () => (await started)?.close());

/**
 * Returns a new context of this test file's headless browser, with its own cookies and cache; it closes when the test ends. If no
 * browser is installed, skips the test with a message. If CI is set, fails the test instead, because CI machines must have a browser.
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
