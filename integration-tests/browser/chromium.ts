import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { findBrowser, launchBrowser, NO_BROWSER } from './launch-browser.ts';

/** The browser of this test file, started by the first test that needs it. */
let started: Promise<Browser> | null = null;

afterAll(async () => (await started)?.close());

/**
 * The headless browser of this test file. Each of its contexts has its own cookies and cache, and is closed when the test ends. If no
 * browser is installed, the test is skipped with a message; if CI is set, it fails, because CI machines must have a browser.
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
