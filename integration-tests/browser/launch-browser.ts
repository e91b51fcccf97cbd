import { access, constants } from 'node:fs/promises';
import path from 'node:path';
import { type Browser, chromium } from 'playwright-core';
import { HANGS_MS } from '../until.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

export const NO_BROWSER = `no browser found: PATH contains none of ${NAMES.join(', ')}; install chromium, or set CHROMIUM to the path of a browser`;

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
 * Starts a headless Chromium with an empty profile. If the environment variable `CHROMIUM` is set, it names the executable.
 * @throws Error if no browser is found.
 */
export async function launchBrowser(): Promise<Browser> {
  const executablePath = await findBrowser();
  if (executablePath === null) {
    throw new Error(NO_BROWSER);
  }
  // Chromium's sandbox does not support the root user.
  const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath, headless: true, args: [...QUIET, ...sandbox], timeout: HANGS_MS });
}

export async function findBrowser(): Promise<string | null> {
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
