import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/**
 * Opens a page in the desktop's browser. The URL contains a token, and other users can read command-line arguments. The browser therefore
 * opens a private file that redirects to the URL. Returns a function that removes the file, or null if there is no desktop.
 */
export async function openBrowser(url: string, environment: NodeJS.ProcessEnv = process.env): Promise<(() => Promise<void>) | null> {
  const command = opener(environment);
  if (command === null) {
    return null;
  }
  const folder = await mkdtemp(join(tmpdir(), 'tony-ts-open-'));
  const file = join(folder, 'tensorboard.html');
  const href = url.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  const page = `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=${href}"><a href="${href}">Continue</a>\n`;
  await writeFile(file, page, { mode: 0o600 });
  const child = spawn(command, [pathToFileURL(file).href], { detached: true, stdio: 'ignore' });
  // Ignore a failure, because the command has already printed the URL.
  child.on('error', () => undefined);
  child.unref();
  return () => rm(folder, { recursive: true, force: true });
}

function opener({ DISPLAY, WAYLAND_DISPLAY }: NodeJS.ProcessEnv): string | null {
  if (process.platform === 'darwin') {
    return 'open';
  }
  return process.platform === 'linux' && (DISPLAY || WAYLAND_DISPLAY) ? 'xdg-open' : null;
}
