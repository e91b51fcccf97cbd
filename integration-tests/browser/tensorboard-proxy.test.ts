import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, type TestContext, test } from 'vitest';
import { reportedJob } from '../../conf/status/job-status.fixture.ts';
import { SummaryWriter } from '../../contract/summary/summary.ts';
import { createStorage } from '../../storage/create-storage.ts';
import { fileUri } from '../../storage/uri.ts';
import { JobSite } from '../../web/job-site.ts';
import type { JobView } from '../../web/job-view.ts';
import type { Access } from '../../web/server/access.ts';
import { WebServer } from '../../web/server/server.ts';
import { until } from '../harness.ts';
import { TensorBoardServer } from '../tensorboard-server.ts';
import { HANGS_MS } from '../until.ts';
import { useBrowser } from './chromium.ts';
import { expectCurve } from './tensorboard-page.ts';
import { type Gateway, startGateway } from './tensorboard-proxy-gateway.ts';

const openBrowser = useBrowser();
const BEHIND_GATEWAY: Access = { kind: 'proxy', hosts: ['127.0.0.1'], mayView: () => true };
/** This run name contains special characters, including some that YARN's proxy corrupts. */
const ODD_RUN = 'validation & {odd} 100% [1]';
const ODD_TAG = 'lr & {decay} 100% a+b';
/** Tabs with a CSS selector that matches when the tab's data has loaded. */
const TABS = {
  scalars: 'vz-line-chart2 path.line[d]',
  images: 'tf-image-loader img',
  distributions: 'vz-distribution-chart path.area',
  histograms: 'vz-histogram-timeseries path.outline',
  text: 'tf-text-loader em:text("3")',
  hparams: 'tf-hparams-table-view :text("0.05")',
};

const VIEW: JobView = {
  status: async () => reportedJob(),
  configuration: async () => ({}),
  events: async (after) => ({ entries: [], next: after }),
  usage: async (after) => ({ samples: [], next: after }),
  scalars: async () => ({ runs: [], message: '' }),
  log: async () => null,
};

const loss = (step: number): number => 1 / (1 + step / 10);

async function writeSummaries(folder: string): Promise<void> {
  const storage = createStorage({ hadoop: null, user: 'alice' });
  for (const run of ['train', ODD_RUN]) {
    const dir = fileUri(path.join(folder, run));
    const onTrouble = (message: string): never => {
      throw new Error(message);
    };
    const summaries = new SummaryWriter({ storage, dir, onTrouble });
    summaries.hparams({ learning_rate: run.length / 100 }, { metrics: ['loss'] });
    for (let step = 1; step <= 100; step++) {
      summaries.scalars(run === ODD_RUN ? { [ODD_TAG]: step } : { loss: loss(step), [ODD_TAG]: -step }, step);
    }
    for (const step of [1, 2, 3]) {
      summaries.image('picture', { values: Float32Array.from({ length: 64 }, (_, index) => index / 64), shape: [8, 8] }, step);
      summaries.histogram(
        'weights',
        Float32Array.from({ length: 100 }, (_, index) => ((index - 50) / 50) ** 3 * step),
        step,
      );
      summaries.text('note', `step *${step}*`, step);
    }

    await summaries.finish();
  }
  storage.close();
}

let folder: string;
let tensorboard: TensorBoardServer;

// The first run downloads TensorBoard.
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-ts-tensorboard-proxy-test-'));
  await writeSummaries(folder);
  tensorboard = await TensorBoardServer.open(folder);
  // TensorBoard's page requests the list of data only once. The test therefore waits until TensorBoard has read all data; the texts of each
  // run come last.
  const isRead = async (run: string): Promise<boolean> =>
    (await tensorboard.data<unknown[]>('text/text', { run, tag: 'note' })).length === 3;
  await until(async () => (await isRead('train')) && (await isRead(ODD_RUN)), {
    describe: () => tensorboard.tags('scalars'),
  });
});
afterAll(async () => {
  await tensorboard.close();
  await rm(folder, { recursive: true, force: true });
});

async function site(access: Access): Promise<WebServer> {
  const log = pino({ level: 'silent' });
  const target = { status: () => ({ state: 'ready', message: '' }) as const, connect: () => connect(tensorboard.port, '127.0.0.1') };
  const job = new JobSite({ view: VIEW, tensorboard: target, access, log });
  const web = await WebServer.open({ address: '127.0.0.1', site: job, log });
  onTestFinished(() => {
    web.close();
    job.close();
  });
  return web;
}

async function gateway(web: WebServer, options: { passes: readonly string[]; longest?: number }): Promise<Gateway> {
  const started = await startGateway(web.port, options);
  onTestFinished(started.close);
  return started;
}

async function openPage(browser: Browser): Promise<{ readonly page: Page; readonly troubles: string[] }> {
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  // The machine may run many tests at the same time.
  page.setDefaultTimeout(HANGS_MS);
  const troubles: string[] = [];
  page.on('response', (response) => response.status() >= 400 && troubles.push(`${response.status()} ${response.url().slice(0, 300)}`));
  page.on('requestfailed', (request) => troubles.push(`${request.failure()?.errorText} ${request.url().slice(0, 300)}`));
  page.on('pageerror', (error) => troubles.push(error.message));
  page.on('console', (message) => message.type() === 'error' && troubles.push(message.text()));
  return { page, troubles };
}

async function visitTabs(page: Page, tabs: readonly (keyof typeof TABS)[]): Promise<void> {
  for (const tab of tabs) {
    await page.evaluate(`location.hash = '${tab}'`);
    await page.locator(TABS[tab]).first().waitFor({ state: 'attached', timeout: HANGS_MS });
  }
}

test('TensorBoard works behind a gateway that rejects POST', async (context: TestContext) => {
  const browser = await openBrowser(context);
  const web = await site(BEHIND_GATEWAY);
  const { url, requests } = await gateway(web, { passes: ['PUT', 'HEAD'] });
  const { page, troubles } = await openPage(browser);
  await page.goto(url);
  await expectCurve(page, 'loss', loss);
  await visitTabs(page, ['scalars', 'images', 'distributions', 'histograms', 'text', 'hparams']);
  expect(troubles).toEqual([]);
  expect(requests.filter((each) => each.startsWith('PUT')).length).toBeGreaterThan(5);
  expect(requests.filter((each) => /^GET .*tunnel(\/|$)/.test(each))).toEqual([]);
});

test('TensorBoard works behind a gateway that rejects POST, PUT and long URLs', async (context: TestContext) => {
  const browser = await openBrowser(context);
  const web = await site(BEHIND_GATEWAY);
  const { url, requests } = await gateway(web, { passes: [], longest: 8000 });
  const { page, troubles } = await openPage(browser);
  await page.goto(url);
  await expectCurve(page, 'loss', loss);
  // The tabs that send POST.
  await visitTabs(page, ['scalars', 'hparams']);
  // The page's script sends this request to detect that the gateway rejects PUT.
  expect(troubles.filter((each) => !each.includes('tunnel/probe') && !each.includes('405'))).toEqual([]);
  expect(requests.filter((each) => each.startsWith('PUT'))).toEqual([`PUT ${new URL(url).pathname}tony/tunnel/probe`]);
});

test('the printed URL with its token opens TensorBoard and the job’s page', async (context: TestContext) => {
  const browser = await openBrowser(context);
  const web = await site({ kind: 'token', token: 'correct-horse-battery' });
  const { page, troubles } = await openPage(browser);
  const root = `http://127.0.0.1:${web.port}/`;
  expect((await page.goto(root))?.status()).toBe(403);
  troubles.length = 0;
  await page.goto(`${root}?token=correct-horse-battery`);
  expect(page.url()).toBe(root);
  await expectCurve(page, 'loss', loss);
  await page.getByRole('link', { name: 'Job' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(`${root}tony/`);
  await page.getByText('mnist').first().waitFor();
  // When the user leaves a page, the browser cancels the page's pending requests.
  expect(troubles.filter((each) => !each.startsWith('net::ERR_ABORTED'))).toEqual([]);
  const fresh = await openPage(browser);
  await fresh.page.setContent(`<a href="http://localhost:${web.port}/tony/?token=correct-horse-battery">the job</a>`);
  await fresh.page.click('a');
  await fresh.page.waitForURL(`http://localhost:${web.port}/tony/`);
  await fresh.page.getByText('mnist').first().waitFor();
  expect(fresh.troubles).toEqual([]);
});

test('the page adds the trailing slash that a gateway drops', async (context: TestContext) => {
  const browser = await openBrowser(context);
  const web = await site(BEHIND_GATEWAY);
  const { url } = await gateway(web, { passes: ['PUT'] });
  const { page } = await openPage(browser);
  await page.goto(`${url.slice(0, -1)}#scalars`);
  await page.waitForURL(`${url}#scalars`);
  await page.locator(TABS.scalars).first().waitFor({ state: 'attached' });
});
