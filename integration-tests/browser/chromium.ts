import type { Browser } from 'playwright-core';
import { afterAll, type TestContext } from 'vitest';
import { findBrowser, launchBrowser, NO_BROWSER } from './launch-browser.ts';

/**
 * Returns a function that returns the headless browser of a test file, and starts it on first use. The browser's contexts close when the
 * test ends. If no browser is installed, the test is skipped; on CI machines (`CI` is set) it fails.
 */
export function useBrowser(): (context: TestContext) => Promise<Browser> {
  let started: Promise<Browser> | null = null;
  afterAll(async () => (await started)?.close());
  return async (context) => {
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
  };
}
