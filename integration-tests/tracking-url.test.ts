import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { BrowserContext, Page } from 'playwright-core';
import { beforeAll, expect, onTestFinished, type TestContext, test } from 'vitest';
import { ensureTensorBoard } from '../client/python/ensure-tensorboard.ts';
import type { JobStatus } from '../conf/status/status.ts';
import { useBrowser } from './browser/chromium.ts';
import { expectCurve } from './browser/tensorboard-page.ts';
import { ROOT } from './command.ts';
import { temporaryFolder, USER, until, useCluster } from './harness.ts';
import { HANGS_MS } from './until.ts';

/** The pages behind YARN's tracking URL. A real browser opens them on a real cluster through the ResourceManager's proxy only. */

const cluster = useCluster();
/** Time limit in ms for a job, a browser and several starts of TensorBoard on a slow machine. */
// The first run downloads TensorBoard.
beforeAll(() => ensureTensorBoard());
const PICTURES = path.join(ROOT, '.cache', 'screenshots');
const openBrowser = useBrowser();
const loss = (step: number): number => Math.exp(-step / 50);

interface Job {
  readonly id: string;
  readonly status: () => Promise<JobStatus>;
  readonly go: () => Promise<void>;
}

async function startJob(env: Readonly<Record<string, string>>): Promise<Job> {
  const folder = await temporaryFolder();
  const lines = [
    'name: curves',
    `source: {path: ${path.join(ROOT, 'integration-tests', 'programs')}}`,
    'command: node curves.mjs',
    `env: {OUT: ${folder}, TONY_BACKEND: cpu}`,
    'roles: {worker: {instances: 1, restart: {policy: never}, resources: {memory: 2g}}}',
    'tensorboard: true',
  ];
  const file = path.join(folder, 'job.yaml');
  await writeFile(file, `${lines.join('\n')}\n`);
  const { stdout, stderr } = await cluster.run(['submit', '--conf', file, '--detach'], { env });
  const id = /application_\d+_\d+/.exec(stdout)?.[0];
  if (id === undefined) {
    throw new Error(`the submit failed: ${stdout}${stderr}`);
  }
  onTestFinished(async () => {
    await cluster.run(['kill', id]);
  });
  const status = async (): Promise<JobStatus> => {
    const { stdout: json } = await cluster.run(['status', id, '--output', 'json']);
    return JSON.parse(json) as JobStatus;
  };
  return { id, status, go: () => writeFile(path.join(folder, 'go'), '') };
}

/** Opens a browser in which the job's user is signed in to YARN. `refused` lists the error responses on all of its pages. */
async function signIn(context: TestContext): Promise<{ browser: BrowserContext; page: Page; refused: string[] }> {
  const browser = await (await openBrowser(context)).newContext({ viewport: { width: 1280, height: 900 } });
  const refused: string[] = [];
  browser.on('response', (response) => {
    if (response.status() >= 400) {
      refused.push(`${response.status()} ${response.request().method()} ${response.url()}`);
    }
  });
  const page = await browser.newPage();
  // The machine may run many tests at the same time.
  page.setDefaultTimeout(HANGS_MS);
  await page.goto(`${cluster.resourceManager}/cluster/apps?user.name=${USER}`);
  return { browser, page, refused };
}

/** Waits until the TensorBoard at `place()` has loaded all logged data, because its page requests the list of data only once. */
async function hasRead(page: Page, place: () => string): Promise<void> {
  const ask = async <T>(data: string, query: Readonly<Record<string, string>> = {}): Promise<T> => {
    const answer = await page.request.get(`${place()}data/plugin/${data}?${new URLSearchParams(query)}`);
    return (await answer.json()) as T;
  };
  const tags = () => ask<Record<string, Readonly<Record<string, unknown>>>>('scalars/tags');
  const isWhole = async (): Promise<boolean> => {
    const run = Object.entries(await tags()).find(([, own]) => 'train/loss' in own)?.[0];
    if (run === undefined) {
      return false;
    }
    const points = await ask<unknown[]>('scalars/scalars', { run, tag: 'train/loss' });
    return points.length === 200 && (await ask<unknown[]>('text/text', { run, tag: 'notes' })).length === 1;
  };
  await until(isWhole, { describe: () => tags().catch(String), everyMs: 500 });
}

async function follow(page: Page, id: string, link: string): Promise<void> {
  await page.goto(`${cluster.resourceManager}/cluster/app/${id}`);
  await page.locator(`a[href*="/proxy/${id}/"]`, { hasText: link }).first().click();
}

async function pictures(page: Page, name: string): Promise<void> {
  await mkdir(PICTURES, { recursive: true });
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await page.screenshot({ path: path.join(PICTURES, `${name}-${width}.png`) });
  }
  await page.setViewportSize({ width: 1280, height: 900 });
}

test("YARN's link opens a TensorBoard with all logged data, even after TensorBoard was killed, and then the job's history", async (context) => {
  // The folder has the permissions that an admin would set: all users may create folders in it, and its group may read them.
  const dir = '/tony-history';
  await cluster.hdfsMakeFolder(dir, '1777');
  const site = async (text: string): Promise<string> => {
    const folder = await temporaryFolder();
    await writeFile(path.join(folder, 'tony-site.yaml'), text);
    return folder;
  };
  const serving = cluster.startCommand(['history', 'serve', '--auth', 'simple'], {
    env: { TONY_CONF_DIR: await site(`history: {dir: "${dir}"}\n`) },
  });
  // A killed server would leave the folders of its TensorBoards.
  onTestFinished(async () => {
    serving.signal('SIGTERM');
    await serving.result;
  });
  const [url = ''] = await serving.output(/http:\/\/[^/\s]+/);
  const folder = await site(`history: {dir: "${dir}", url: "${url}"}\n`);
  const job = await startJob({ TONY_CONF_DIR: folder });
  const { page, refused } = await signIn(context);
  await until(async () => (await job.status()).step === 200, { describe: () => job.status() });
  await hasRead(page, () => `${cluster.resourceManager}/proxy/${job.id}/`);
  await follow(page, job.id, 'ApplicationMaster');
  await expectCurve(page, 'train/loss', loss);
  await pictures(page, 'tracking-url-time-series');

  // TensorBoard's tabs for the logged data, each with a text or an element that the tab must contain.
  const tabs = [
    ['scalars', 'vz-line-chart2'],
    ['images', 'tf-image-loader img'],
    ['distributions', 'vz-distribution-chart'],
    ['histograms', 'vz-histogram-timeseries'],
    ['text', 'text=Trained on'],
    ['hparams', 'text=learning rate'],
  ] as const;
  for (const [tab, content] of tabs) {
    await page.goto(page.url().replace(/#.*|$/, `#${tab}`));
    await page.locator(content).first().waitFor({ timeout: HANGS_MS });
    await pictures(page, `tracking-url-${tab}`);
  }
  expect(refused).toEqual([]);

  const python = async (): Promise<number> => {
    const found = (await cluster.containers(job.id)).find(({ command }) => /python.*tensorboard/.test(command));
    if (found === undefined) {
      throw new Error('no TensorBoard runs');
    }
    return found.pid;
  };
  const first = await python();
  process.kill(first, 'SIGKILL');
  await until(async () => (await python()) !== first && (await job.status()).tensorboard.state === 'ready', {
    describe: () => job.status(),
  });
  await hasRead(page, () => `${cluster.resourceManager}/proxy/${job.id}/`);
  await follow(page, job.id, 'ApplicationMaster');
  await expectCurve(page, 'train/loss', loss);

  await page.getByRole('link', { name: /job/i }).first().click();
  await page
    .getByRole('heading', { name: /curves/ })
    .first()
    .waitFor({ timeout: HANGS_MS });
  expect(new URL(page.url()).pathname).toBe(`/proxy/${job.id}/tony/`);
  await pictures(page, 'tracking-url-job');

  await job.go();
  expect(await cluster.ended(job.id)).toMatchObject({ finalStatus: 'SUCCEEDED' });

  await follow(page, job.id, 'History');
  // YARN does not send the user's identity to the history server.
  await page.locator('input[name="user.name"]').fill(USER);
  await page.keyboard.press('Enter');
  // The page that waits for TensorBoard reloads itself, and would abort a reload of the test at the same time.
  await page.locator('tb-webapp').waitFor({ timeout: HANGS_MS });
  await hasRead(page, () => new URL('.', page.url()).href);
  await page.reload();
  await expectCurve(page, 'train/loss', loss);
  await pictures(page, 'history-tensorboard');
  await page.getByRole('link', { name: /job/i }).first().click();
  await page
    .getByRole('heading', { name: /curves/ })
    .first()
    .waitFor({ timeout: HANGS_MS });
  await pictures(page, 'history-job');
  await page.goto(`${url}/`);
  await page.getByText(job.id).first().waitFor({ timeout: HANGS_MS });
  await pictures(page, 'history-index');
});
