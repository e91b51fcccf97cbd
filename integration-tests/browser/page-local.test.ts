import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ROOT, startCommand } from '../command.ts';
import { temporaryFolder } from '../harness.ts';
import { HANGS_MS } from '../until.ts';
import { useBrowser } from './chromium.ts';

const openBrowser = useBrowser();
const PICTURES = path.join(ROOT, '.cache', 'screenshots');
/** Time limit in ms. On a busy machine, a program start, a restart and a flush of the summaries take this long. */
const PATIENT = { timeout: HANGS_MS };

test('the page of a local job shows the ApplicationMaster’s data, from the first failure to the end of the job', async (context) => {
  const folder = await temporaryFolder();
  const file = path.join(folder, 'job.yaml');
  await writeFile(
    file,
    `
name: curves
source: {path: ${path.join(ROOT, 'integration-tests', 'programs')}}
env: {OUT: ${folder}, TONY_BACKEND: cpu, DATABASE_PASSWORD: hunter2}
command: |
  if [ ! -e $OUT/failed ]; then touch $OUT/failed; echo 'the cause of it' >&2; exit 3; fi
  echo hello from generation $TONY_GENERATION
  exec node curves.mjs
roles: {worker: {instances: 1, resources: {memory: 2g}, restart: {policy: on-failure, maxRestarts: 1}}}
`,
  );
  const command = startCommand(['submit', '--local', '--conf', file], {
    env: { TONY_LOCAL_DIR: path.join(folder, 'root') },
  });
  onTestFinished(() => writeFile(path.join(folder, 'go'), ''));
  const [url] = await command.output(/http:\S+token=\S+/);
  const page = await (await (await openBrowser(context)).newContext({ viewport: { width: 1280, height: 900 } })).newPage();
  const complaints: string[] = [];
  page.on('console', (message) => complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  await page.goto(new URL(`/tony/${new URL(url).search}`, url).href);
  expect(page.url()).not.toContain('token');

  const alert = page.locator('.alert').first();
  await expect.poll(() => alert.innerText(), PATIENT).toContain('First failure: worker:0');
  expect(await alert.innerText()).toContain('the cause of it');
  await expect.poll(() => page.locator('.tiles').innerText(), PATIENT).toMatch(/Step\s+200/);
  await page.locator('.chart', { hasText: 'train/loss' }).locator('canvas').waitFor(PATIENT);
  await expect
    .poll(() => page.locator('.legend').first().innerText(), PATIENT)
    .toContain(String(Number(Math.exp(-200 / 50).toPrecision(4))));
  await mkdir(PICTURES, { recursive: true });
  await page.screenshot({ path: path.join(PICTURES, 'local-overview-1280.png'), fullPage: true });

  await page.getByRole('tab', { name: 'Resources' }).click();
  await page.locator('.chart', { hasText: 'Memory' }).locator('canvas').waitFor(PATIENT);

  await page.getByRole('tab', { name: 'Timeline' }).click();
  await page.getByRole('button', { name: 'worker:0' }).click();
  const steps = page.locator('table.plain tbody');
  await expect.poll(() => steps.locator('tr').count(), PATIENT).toBe(9);
  const rows = (await steps.locator('tr').allInnerTexts()).map((row) => row.split('\t')[1]?.replace(/:.*/, '').trim());
  const start = ['waiting for a container', 'container starting', 'waiting for the gang', 'running'];
  expect(rows).toEqual([...start, 'failed', ...start]);
  await page.screenshot({ path: path.join(PICTURES, 'local-timeline-1280.png'), fullPage: true });
  await steps.getByRole('link', { name: 'log' }).first().click();
  await expect.poll(() => page.locator('pre.text').textContent(), PATIENT).toBe('the cause of it\n');
  await page.getByLabel('Task').selectOption('worker:0');
  await page.getByText('stdout', { exact: true }).click();
  await expect.poll(() => page.locator('pre.text').textContent(), PATIENT).toContain('hello from generation 2\n');

  await page.getByRole('tab', { name: 'Configuration' }).click();
  await expect.poll(() => page.locator('pre.configuration').textContent(), PATIENT).toContain('name: curves');
  expect(await page.locator('pre.configuration').textContent()).not.toContain('hunter2');

  expect(complaints).toEqual([]);
  await writeFile(path.join(folder, 'go'), '');
  expect((await command.result).exitCode).toBe(0);
  // The server stops when the job ends. A page that has not received the final state by then shows the command that prints the state.
  const shown = async () => `${await page.locator('header .badge').innerText()} ${await page.locator('.banner').innerText()}`;
  await expect.poll(shown, PATIENT).toMatch(/succeeded|If the job has ended, tony-ts history show local_\d+_0001/);
  expect(complaints.filter((complaint) => !complaint.includes('net::ERR_'))).toEqual([]);
});
