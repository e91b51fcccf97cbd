import { mkdirSync } from 'node:fs';
import path from 'node:path';
import type { Page } from 'playwright-core';
import { describe, expect, onTestFinished, type TestContext, test } from 'vitest';
import { ASSETS } from '../../web/page/assets.ts';
import { SECTIONS } from '../../web/page/browser/parts/route.ts';
import { HANGS_MS } from '../until.ts';
import { useBrowser } from './chromium.ts';
import { servePage } from './page-server.ts';
import {
  endedScene,
  failedScene,
  HOSTILE,
  hostileScene,
  largeScene,
  runningScene,
  type Scene,
  stagedScene,
  waitingScene,
} from './page-views.ts';

const openBrowser = useBrowser();

/**
 * Folder for screenshots. If the environment variable is set, the tests take screenshots in both color schemes for visual inspection. The
 * layout does not depend on the color scheme.
 */
const SCREENSHOTS = process.env.SCREENSHOTS;
const COLOR_SCHEMES = SCREENSHOTS === undefined ? (['light'] as const) : (['light', 'dark'] as const);
const PATIENT = { timeout: HANGS_MS };
const WIDE = { width: 1280, height: 860 };
const NARROW = { width: 390, height: 844 };

interface Visit {
  readonly page: Page;
  /** Browser errors and requests to other origins. */
  readonly complaints: readonly string[];
}

async function shown(context: TestContext, scene: Scene, hash = ''): Promise<Visit> {
  const { url, close } = await servePage(scene);
  onTestFinished(close);
  const page = await (await (await openBrowser(context)).newContext({ viewport: WIDE })).newPage();
  const complaints: string[] = [];
  const { origin } = new URL(url);
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) {
      complaints.push(message.text());
    }
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => {
    const requested = request.url();
    if (!requested.startsWith(`${origin}/`) && !requested.startsWith('data:')) {
      complaints.push(`request to another origin: ${requested}`);
    }
  });
  await page.goto(`${url}${hash}`);
  await page.waitForSelector('#panel');
  return { page, complaints };
}

async function screenshot(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS !== undefined) {
    mkdirSync(SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: path.join(SCREENSHOTS, `${name}.png`) });
  }
}

describe('the job’s page', () => {
  test('shows the job, and sends requests only to the job’s server', async (context) => {
    const { page, complaints } = await shown(context, runningScene());
    await expect.poll(() => page.title()).toBe('running · mnist-convnet');
    expect(await page.locator('h1').textContent()).toBe('mnist-convnet');
    const top = await page.locator('header').innerText();
    for (const fact of ['application_1795247621148_0042', 'alice', 'research', 'running', '12 min']) {
      expect(top).toContain(fact);
    }
    expect(await page.getByRole('link', { name: 'Open TensorBoard' }).getAttribute('href')).toBe(new URL('/', page.url()).href);
    await page.locator('.chart canvas').nth(1).waitFor();
    expect(await page.locator('.chart h3').allTextContents()).toEqual(['loss', 'examples_per_second']);
    expect(await page.locator('.tiles').innerText()).toContain('checkpoint at 8,400');
    expect(await page.getByRole('region', { name: 'Programs that may still be running' }).innerText()).toContain(
      'worker:1 may still be running on node3.example.com:8041 for up to 24 s: YARN considers its container lost',
    );

    await page.getByRole('tab', { name: 'Tasks' }).click();
    expect(page.url()).toMatch(/#tasks$/);
    const worker = page.locator('tr.task', { hasText: 'worker:1' });
    for (const value of ['running', 'node2.example.com:8041', '673.3 MB', '0.9', '88 %', '8,412']) {
      expect(await worker.innerText()).toContain(value);
    }

    await page.getByRole('tab', { name: 'Timeline' }).click();
    await page.getByRole('button', { name: 'worker:1' }).click();
    for (const phase of ['waiting for a container', 'container starting', 'waiting for the gang', 'running', 'failed: ']) {
      await expect.poll(() => page.locator('table.plain tbody').innerText()).toContain(phase);
    }

    await page.getByRole('tab', { name: 'Events' }).click();
    expect(await page.locator('table.events tbody tr').first().innerText()).toContain('program-started');

    await page.getByRole('tab', { name: 'Configuration' }).click();
    expect(await page.locator('pre.configuration').textContent()).toContain('    API_TOKEN: "***"');
    expect(complaints).toEqual([]);
  });

  test('draws curves, and shows their values at the pointer and at the keyboard cursor', async (context) => {
    const scene = runningScene();
    const { page, complaints } = await shown(context, scene, '#charts');
    const chart = page.locator('.chart', { hasText: 'learning rate' });
    const plot = chart.locator('.plot');
    await plot.locator('canvas').waitFor();
    expect(await page.evaluate(COLOURED_COLUMNS)).toBeGreaterThan(200);
    const rate = scene.charts?.runs[0]?.scalars.find(({ tag }) => tag === 'learning rate');
    await page.getByLabel('Smoothing').fill('0');
    await plot.focus();
    await page.keyboard.press('ArrowRight');
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => chart.locator('.at').textContent()).toBe(String(rate?.steps[1]));
    expect(await chart.locator('.legend').innerText()).toContain(String(rate?.values[1]));
    const before = await plot.locator('canvas').elementHandle();
    await page.emulateMedia({ colorScheme: 'dark' });
    await before?.waitForElementState('hidden');
    await expect.poll(() => chart.locator('.at').textContent()).toBe(String(rate?.steps[1]));
    await page.keyboard.press('ArrowRight');
    await expect.poll(() => chart.locator('.at').textContent()).toBe(String(rate?.steps[2]));
    await page.getByLabel('Scale').selectOption('log');
    await page.getByLabel('X axis').selectOption('wall');
    await plot.hover({ position: { x: 300, y: 100 } });
    await expect.poll(() => chart.locator('.at').textContent()).toMatch(/^\d\d:\d\d:\d\d$/);
    expect(complaints).toEqual([]);
  });

  test('shows the first failure at the top, with its last lines and a link to its log', async (context) => {
    const scene = failedScene();
    const { page, complaints } = await shown(context, scene);
    const alert = page.locator('.alert').first();
    expect(await alert.locator('h2').innerText()).toBe('First failure: worker:1');
    expect(await alert.innerText()).toContain('Error: no file train-images.idx3-ubyte in /data/mnist');
    expect(await alert.innerText()).toContain('worker:1 failed 4 times, but only 3 restarts are allowed');
    const [above, below] = [await alert.boundingBox(), await page.getByRole('tablist').boundingBox()];
    expect(above?.y).toBeLessThan(below?.y ?? 0);
    await alert.getByRole('link', { name: 'Log of worker:1' }).click();
    expect(page.url()).toMatch(/#logs\/worker:1\/stderr$/);
    await expect.poll(() => page.locator('pre.text').textContent()).toBe(scene.logs?.['worker:1/stderr']);
    expect(complaints).toEqual([]);
  });

  test('shows why the job waits', async (context) => {
    const { page } = await shown(context, waitingScene());
    const reason = await page.locator('.alert').innerText();
    expect(reason).toContain('Waiting for 2 min 52 s. worker:1-3 got no container (');
    expect(reason).toContain('queue research has too little room left: 0 yarn.io/gpu');
  });

  test('shows for which role a role waits', async (context) => {
    const { page, complaints } = await shown(context, stagedScene());
    expect(await page.locator('.alert').innerText()).toBe(
      'Role worker waits for prepare\n\nRole worker waits until prepare has succeeded.',
    );
    expect(await page.locator('.roles').innerText()).toMatch(/prepare\s+1 running\s+worker\s+2 waiting for prepare/);
    await screenshot(page, 'staged-overview');
    await page.getByRole('tab', { name: 'Tasks' }).click();
    await expect
      .poll(() => page.locator('tr.task .c-state').allInnerTexts())
      .toEqual(['running', ...Array.from({ length: 2 }, () => 'waiting until prepare has succeeded')]);
    await screenshot(page, 'staged-tasks');
    expect(complaints).toEqual([]);
  });

  test('announces the job’s state, and stops polling when the job has ended', async (context) => {
    const scene = runningScene();
    const { page } = await shown(context, scene);
    const seen: string[] = [];
    page.on('request', (request) => seen.push(`asked ${new URL(request.url()).pathname}`));
    // The event fires when the response headers arrive, before the page can send its next request.
    page.on('response', (response) => seen.push(`answered ${new URL(response.url()).pathname}`));
    const announced = page.locator('[aria-live=polite]').first();
    expect(await announced.textContent()).toBe('State of the job: running.');
    const { status } = endedScene();
    scene.status = status;
    await expect.poll(() => announced.textContent(), PATIENT).toBe('State of the job: succeeded.');
    // The job may write curves shortly before its final state, so the page requests the curves once more.
    const informed = seen.lastIndexOf('answered /tony/api/v1/job');
    await expect.poll(() => seen.lastIndexOf('asked /tony/api/v1/scalars')).toBeGreaterThan(informed);
    // This pause is longer than the polling interval. A page that still polls sends a request within this time.
    await expect(page.waitForRequest(() => true, { timeout: 6_000 })).rejects.toThrow('Timeout');
  });

  test('reports that the job is unreachable, and recovers when the job responds again', async (context) => {
    const scene = runningScene();
    const { page } = await shown(context, scene);
    await page.route('**/tony/api/v1/**', (route) => route.abort('connectionrefused'));
    const banner = page.locator('.banner');
    await expect.poll(() => banner.innerText(), PATIENT).toContain('Cannot reach the job. It was last seen');
    expect(await banner.innerText()).toContain('tony-ts history show application_1795247621148_0042');
    await page.unroute('**/tony/api/v1/**');
    await expect.poll(() => banner.textContent(), PATIENT).toBe('');
  });

  test('shows how long the ApplicationMaster has not responded, and recovers when it responds again', async (context) => {
    const { page } = await shown(context, runningScene());
    // The requests receive neither a response nor an error, as when the ApplicationMaster's process is suspended.
    await page.route('**/tony/api/v1/**', () => undefined);
    const banner = page.locator('.banner');
    await expect.poll(() => banner.innerText(), PATIENT).toMatch(/The ApplicationMaster has not answered for \d+ s\./);
    await page.unroute('**/tony/api/v1/**');
    await expect.poll(() => banner.textContent(), PATIENT).toBe('');
  });

  test('does not follow a redirect to another site, and reports it', async (context) => {
    const { page, complaints } = await shown(context, runningScene());
    await page.route('**/tony/api/v1/job', (route) =>
      route.fulfill({ status: 302, headers: { Location: 'http://elsewhere.example.com/' } }),
    );
    await expect.poll(() => page.locator('.banner').innerText(), PATIENT).toContain('now redirects to another page');
    expect(complaints.filter((complaint) => complaint.startsWith('request to another origin'))).toEqual([]);
  });

  test('shows the end of a log as plain text without colours, and earlier lines on request', async (context) => {
    const scene = runningScene();
    const long = Array.from({ length: 20_000 }, (_, line) => `line ${line}`).join('\n');
    const { page } = await shown(context, { ...scene, logs: { ...scene.logs, 'worker:0/stdout': long } }, '#logs/worker:0/stderr');
    const text = page.locator('pre.text');
    await expect.poll(() => text.textContent()).toBe('warning: no GPU was found, the CPU is used\nepoch 3\n');
    await page.getByText('stdout', { exact: true }).click();
    await expect.poll(() => text.textContent()).toContain('line 19999');
    expect(await text.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight)).toBeLessThan(3);
    await page.getByRole('button', { name: 'Show more' }).click();
    await expect.poll(() => text.textContent()).toMatch(/^line 0\n/);
    await page.getByLabel('Lines containing').fill('line 1234');
    await expect
      .poll(() => text.textContent())
      .toBe(['line 1234', ...Array.from({ length: 10 }, (_, digit) => `line 1234${digit}`)].join('\n'));
    await page.getByLabel('Task').selectOption('master');
    await expect.poll(() => page.url()).toMatch(/#logs\/master\/tony\.log$/);
  });

  test('shows, filters and sorts 200 tasks', async (context) => {
    const { page } = await shown(context, largeScene(), '#tasks');
    await expect.poll(() => page.locator('tr.task').count()).toBe(200);
    const search = page.getByLabel('Filter');
    await search.pressSequentially('launching');
    await expect.poll(() => page.locator('tr.task').count()).toBe(1);
    await search.fill('');
    await page.getByRole('button', { name: 'Memory' }).click();
    await expect.poll(() => page.locator('th[aria-sort=descending]').innerText()).toContain('Memory');
    await page.getByRole('button', { name: /^worker/ }).click();
    await expect.poll(() => page.locator('tr.task').count()).toBe(8);
  });
});

test('every section shows hostile names and output as text', async (context) => {
  const { page, complaints } = await shown(context, hostileScene());
  for (const section of SECTIONS) {
    await page.goto(page.url().replace(/(#.*)?$/, section === 'logs' ? '#logs/worker:0/stderr' : `#${section}`));
    await expect.poll(() => page.locator('[role=tab][aria-selected=true]').getAttribute('id')).toBe(`tab-${section}`);
    await expect.poll(() => page.locator('main').innerText(), { message: section }).toContain(HOSTILE);
    await expect.poll(() => page.locator('#panel').innerText(), { message: section }).not.toContain('Reading');
    expect(await page.locator('h1').textContent()).toBe(HOSTILE);
    expect(await page.locator('main img, main script, [onerror]').count(), section).toBe(0);
    expect(await page.title()).not.toBe('hacked');
    const links = await page.locator('a').evaluateAll((all) => all.map((link) => link.getAttribute('href') ?? ''));
    expect(links.filter((href) => !/^(#|http:\/\/)/.test(href))).toEqual([]);
    expect(complaints).toEqual([]);
  }
});

describe('the job’s page, without a mouse,', () => {
  test('moves a visible focus through all controls', async (context) => {
    const { page } = await shown(context, failedScene(), '#tasks');
    const focused = () => page.evaluate<[string, boolean]>(FOCUSED);
    await page.keyboard.press('Tab');
    expect((await focused())[0]).toContain('Skip to the content');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    expect((await focused())[0]).toContain('Error: no file');
    const seen: string[] = [];
    for (let presses = 0; presses < 60; presses++) {
      await page.keyboard.press('Tab');
      const [name, visible] = await focused();
      // After the page's last element, focus moves to the browser's own controls.
      if (name === '') {
        break;
      }
      expect([name, visible]).toEqual([name, true]);
      seen.push(name);
    }
    for (const name of ['Log of worker:1', 'Tasks', 'Task', 'Memory', 'worker:0']) {
      expect(seen.some((each) => each.includes(name))).toBe(true);
    }
    expect(seen.filter((name) => ['Overview', 'Charts', 'Logs'].includes(name))).toEqual([]);
  });

  test('selects tabs with the arrow keys', async (context) => {
    const { page } = await shown(context, runningScene());
    await page.getByRole('tab', { name: 'Overview' }).focus();
    for (const [key, section] of [
      ['ArrowRight', 'charts'],
      ['ArrowRight', 'resources'],
      ['ArrowLeft', 'charts'],
      ['End', 'configuration'],
      ['ArrowRight', 'overview'],
    ] as const) {
      await page.keyboard.press(key);
      await expect.poll(() => page.locator('[role=tab][aria-selected=true]').getAttribute('id')).toBe(`tab-${section}`);
      expect(await page.evaluate('document.activeElement.id')).toBe(`tab-${section}`);
      expect(page.url()).toMatch(new RegExp(`#${section}$`));
    }
    await page.goBack();
    await expect.poll(() => page.locator('[role=tab][aria-selected=true]').getAttribute('id')).toBe('tab-configuration');
  });

  test('gives screen readers a heading and a name for every control', async (context) => {
    const { page } = await shown(context, runningScene());
    for (const section of SECTIONS) {
      await page.goto(page.url().replace(/(#.*)?$/, `#${section}`));
      await expect.poll(() => page.locator('#panel').innerText()).not.toContain('Reading');
      expect(await page.evaluate(UNNAMED)).toEqual([]);
      expect(await page.locator('h1').count()).toBe(1);
    }
  });
});

test.for(COLOR_SCHEMES)('the page fits narrow and wide screens, %s', async (colorScheme, context) => {
  const page = await (await (await openBrowser(context)).newContext({ colorScheme })).newPage();
  const scenes: Readonly<Record<string, [Scene, readonly string[]]>> = {
    running: [runningScene(), SECTIONS],
    waiting: [waitingScene(), ['overview', 'timeline']],
    failed: [failedScene(), ['overview', 'logs']],
    many: [largeScene(), ['overview', 'resources', 'tasks', 'timeline']],
    ended: [endedScene(), ['overview', 'timeline']],
    hostile: [hostileScene(), SECTIONS],
  };
  for (const [name, [scene, sections]] of Object.entries(scenes)) {
    const server = await servePage(scene);
    onTestFinished(() => server.close());
    for (const viewport of [WIDE, NARROW]) {
      await page.setViewportSize(viewport);
      await page.goto(server.url);
      await page.waitForSelector('#panel');
      for (const section of sections) {
        await page.goto(`${server.url}#${section}`);
        await expect.poll(() => page.locator('#panel').innerText()).not.toContain('Reading');
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth');
        expect([name, section, viewport.width, overflow]).toEqual([name, section, viewport.width, 0]);
        if (name !== 'hostile') {
          await screenshot(page, `${name}-${section}-${viewport.width}-${colorScheme}`);
        }
      }
    }
  }
});

test('the job’s page is smaller than 70 kB', () => {
  const weight = [...ASSETS].filter(([name]) => /^(job|page)-/.test(name)).reduce((sum, [, { gzip }]) => sum + gzip.length, 0);
  expect(weight).toBeLessThan(70_000);
});

// Expressions to evaluate in the page. They are strings because the tests compile without DOM types.

const FOCUSED = `(() => {
  const element = document.activeElement;
  if (element === null || element === document.body) return ['', false];
  const name = element.getAttribute('aria-label') || element.innerText || element.labels?.[0]?.innerText || element.id;
  const marks = [element, element.nextElementSibling].filter(Boolean).map((each) => getComputedStyle(each));
  const style = name && element.type === 'radio' ? marks[1] : marks[0];
  return [element.getAttribute('aria-label')?.startsWith('Last lines') ? element.innerText : name, style.outlineStyle !== 'none'];
})()`;

const UNNAMED = `[...document.querySelectorAll('button, a, input, select, table, canvas, [role=tabpanel], pre[tabindex]')]
  .filter((element) => {
    if (element.tagName === 'CANVAS') return element.closest('[role=img][aria-label]') === null;
    if (element.tagName === 'TABLE') return element.caption === null;
    const text = element.tagName === 'SELECT' ? '' : element.innerText;
    return !(element.getAttribute('aria-label') || element.getAttribute('aria-labelledby') || element.labels?.[0]?.innerText.trim() || text?.trim());
  })
  .map((element) => element.outerHTML.slice(0, 120))`;

/** Counts the pixel columns of the first chart that contain a colored line. The grid and the text are gray. */
const COLOURED_COLUMNS = `(() => {
  const canvas = document.querySelector('.chart canvas');
  const { data, width, height } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const coloured = (x, y) => {
    const [red, green, blue, alpha] = data.subarray((y * width + x) * 4);
    return alpha > 128 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
  };
  let columns = 0;
  for (let x = 0; x < width; x++) if (Array.from({ length: height }, (_, y) => y).some((y) => coloured(x, y))) columns++;
  return columns;
})()`;
