import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import type { TestContext } from 'vitest';

/** Names under which distributions install Chromium. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Disables the browser's own network traffic: tests use loopback only. */
const QUIET = [
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-default-apps',
  '--disable-extensions',
];

/**
 * A headless browser with its own profile, closed when the test ends. Without an installed browser the test is skipped and says so;
 * with CI set it fails, because CI machines must have a browser. `CHROMIUM` names an executable to use instead of the one on PATH.
 */
export async function openBrowser(context: TestContext): Promise<Browser> {
  const executablePath = await findBrowser();
  if (executablePath === null) {
    const reason = `no browser found: PATH contains none of ${NAMES.join(', ')}; install chromium, or set CHROMIUM to the path of a browser`;
    if (process.env.CI !== undefined && process.env.CI !== '') {
      throw new Error(reason);
    }
    return context.skip(reason);
  }
  // Chromium's sandbox does not run as root.
  const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const browser = await chromium.launch({ executablePath, headless: true, args: [...QUIET, ...sandbox], timeout: 120_000 });
  context.onTestFinished(() => browser.close());
  return browser;
}

async function findBrowser(): Promise<string | null> {
  const named = process.env.CHROMIUM;
  if (named !== undefined && named !== '') {
    return named;
  }
  for (const folder of (process.env.PATH ?? '').split(path.delimiter)) {
    for (const name of NAMES) {
      const file = path.join(folder, name);
      const usable = await access(file, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (usable && folder !== '') {
        return file;
      }
    }
  }
  return null;
}
