import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { useBrowser } from '../browser/chromium.ts';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder, useCluster } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';

const VERSION = '4.4.9';
const RUN_CELL = path.join(ROOT, 'integration-tests', 'programs', 'run-cell.py');

const cluster = useCluster();
const theBrowser = useBrowser();

test('a notebook with JupyterLab from the registry runs cells of its page, and ends when it is idle', {
  timeout: 900_000,
}, async (context) => {
  const python = await pythonWith(path.join(ROOT, '.cache', `jupyterlab-${VERSION}`), [`jupyterlab==${VERSION}`, 'ipykernel']);
  const notebook = cluster.startCommand(['notebook', '--conf', await jobFile(), '--port', '0', '--idle', '30s'], { timeoutMs: 850_000 });
  const [url] = await notebook.output(/http:\S+/);
  const [id] = await notebook.output(/application_\d+_\d+/);

  const page = await (await theBrowser(context)).newPage({ viewport: { width: 1200, height: 800 } });
  await page.goto(url);
  await page.locator('.jp-LauncherCard[data-category="Notebook"]').first().click({ timeout: 120_000 });
  const cell = page.locator('.jp-Notebook .jp-Cell .cm-content').first();
  await cell.click({ timeout: 120_000 });
  await page.keyboard.type('import os, jupyterlab; print(6 * 7, os.environ["TONY_ROLE"], jupyterlab.__file__)');
  await page.keyboard.press('Shift+Enter');
  // The node has JupyterLab only in the archive of the job.
  await expect
    .poll(() => page.locator('.jp-OutputArea-output').allInnerTexts(), { timeout: 120_000 })
    .toEqual([expect.stringMatching(/^42 notebook \/.*\/container_\w+\/venv\/lib\/.*jupyterlab/)]);

  // A cell that runs longer than the limit counts as activity.
  const { stdout } = await execute(python, [RUN_CELL, url, 'import time; time.sleep(45); print("awake")']);
  expect(stdout).toBe('awake\nok\n');
  // The open page does not.
  expect(await notebook.result).toMatchObject({ exitCode: 0, stderr: expect.stringContaining(`${id} has ended.`) });
  expect(await cluster.ended(id)).toMatchObject({ state: 'FINISHED', finalStatus: 'SUCCEEDED' });
});

async function jobFile(): Promise<string> {
  const folder = await temporaryFolder();
  writeFileSync(path.join(folder, 'requirements.txt'), `jupyterlab==${VERSION}\nipykernel\n`);
  const file = path.join(folder, 'job.yaml');
  writeFileSync(
    file,
    'name: mnist\nframework: none\nruntime: system\ncommand: python3 train.py\nsource: null\npython: {requirements: requirements.txt}\n' +
      'roles: {worker: {resources: {memory: 2g}}}\nmaster: {resources: {memory: 512m}}\n',
  );
  return file;
}
