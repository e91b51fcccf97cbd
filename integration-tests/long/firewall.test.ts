import { execFileSync, spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { expect, onTestFinished, test } from 'vitest';
import { blocksOf, commandsOf, type Document, readDocuments } from '../../tools/documents.ts';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';

/*
 * Follows docs/admin/install.md in a network namespace that has only a loopback interface: first with mirrors of an npm and a Python
 * registry as the only servers that can be reached, then without any server.
 */

const LIMIT_MS = 25 * 60_000;
const MIRROR_PORT = 4873;
const MIRROR = `http://127.0.0.1:${MIRROR_PORT}`;

/** Whether this machine lets its user create a network namespace and start its loopback interface. */
const isolates = spawnSync('unshare', ['-rn', 'ip', 'link', 'set', 'lo', 'up']).status === 0;

/** Forwards connections to the mirror's port to a Unix socket, which reaches the mirror from within the namespace. */
const FORWARDER = `require('node:net').createServer((near) => {
  const far = require('node:net').connect(process.argv[1]);
  near.pipe(far).pipe(near);
  for (const end of [near, far]) end.on('error', () => { near.destroy(); far.destroy(); });
}).listen(${MIRROR_PORT}, '127.0.0.1', () => console.log('ready'));`;

async function commandsUnder(heading: string): Promise<string[]> {
  const page = (await readDocuments()).find(({ name }) => name === 'docs/admin/install.md') as Document;
  const lines = page.text.split('\n');
  const first = lines.indexOf(heading) + 1;
  const next = lines.findIndex((line, index) => index >= first && line.startsWith('## '));
  const blocks = blocksOf(page).filter(({ language, line }) => language === 'sh' && line > first && (next === -1 || line <= next));
  return blocks.flatMap(commandsOf).map(({ text }) => text);
}

/** Runs commands in a shell in the namespace. The environment contains no settings of the user's npm and pip. */
async function runIsolated(commands: readonly string[], { cwd, home, socket }: { cwd: string; home: string; socket?: string }) {
  const kept = ['PATH', 'LANG', 'SSL_CERT_FILE', 'PYENV_ROOT'].flatMap((name) => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const bridge = socket === undefined ? [] : [`'${process.execPath}' -e "$FORWARDER" '${socket}' | head -n 1`];
  // The forwarder outlives the pipe that reports its start.
  const start = bridge.map((line) => line.replace(' | head -n 1', ` > '${home}/forwarder' & bridge=$!; trap 'kill $bridge' EXIT`));
  const wait = socket === undefined ? [] : [`until grep -q ready '${home}/forwarder'; do sleep 0.1; done`];
  const script = ['set -ex', 'ip link set lo up', ...start, ...wait, ...commands].join('\n');
  return await execute('unshare', ['-rn', 'bash', '-c', script], {
    cwd,
    env: { ...Object.fromEntries(kept), HOME: home, NO_COLOR: '1', FORWARDER },
    maxBuffer: 1 << 26,
    timeout: LIMIT_MS,
  });
}

/** Serves an npm registry under /npm/ and a Python registry under /simple/. Replaces the hosts of files with its own address. */
async function startMirror(socket: string): Promise<Set<string>> {
  const hosts = new Set<string>();
  const npm = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).trim();
  const upstream: readonly (readonly [prefix: string, address: string])[] = [
    ['/npm/', npm],
    ['/simple/', `${(process.env.PIP_INDEX_URL ?? 'https://pypi.org/simple').replace(/\/$/, '')}/`],
    ['/files/', 'https://files.pythonhosted.org/'],
  ];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = request.url ?? '';
    const [prefix, address] = upstream.find(([start]) => url.startsWith(start)) ?? [];
    if (prefix === undefined || address === undefined || request.method !== 'GET') {
      response.writeHead(404).end();
      return;
    }
    hosts.add(prefix);
    const accept = request.headers.accept ?? '*/*';
    const reply = await fetch(address + url.slice(prefix.length), { headers: { accept } });
    const type = reply.headers.get('content-type') ?? 'application/octet-stream';
    response.writeHead(reply.status, { 'content-type': type });
    if (/json|html/.test(type)) {
      const text = await reply.text();
      response.end(text.replaceAll(npm, `${MIRROR}/npm/`).replaceAll('https://files.pythonhosted.org/', `${MIRROR}/files/`));
    } else if (reply.body === null) {
      response.end();
    } else {
      await pipeline(Readable.fromWeb(reply.body as never), response);
    }
  };
  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) => {
      response.headersSent ? response.destroy(error) : response.writeHead(502).end(error.message);
    });
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return hosts;
}

test.skipIf(!isolates)(
  'the documented commands install tony-ts where only mirrors can be reached',
  async () => {
    const folder = await temporaryFolder();
    const [repository, home] = [path.join(folder, 'repository'), path.join(folder, 'home')];
    await Promise.all([mkdir(repository), mkdir(home)]);
    await execute('sh', ['-c', 'git ls-files -z | xargs -0 cp --parents -t "$0"', repository], { cwd: ROOT });
    const socket = path.join(folder, 'mirror');
    const used = await startMirror(socket);
    const documented = await commandsUnder('## A machine that reaches only mirrors');
    expect(documented.length).toBeGreaterThan(4);
    const prefix = path.join(folder, 'opt');
    const commands = documented.map((command) =>
      command
        .replace('https://npm.example.com/', `${MIRROR}/npm/`)
        .replace('https://pypi.example.com/simple', `${MIRROR}/simple`)
        .replaceAll('/opt/tony-ts', prefix),
    );
    const job = [
      `export PATH='${prefix}/bin':"$PATH"`,
      'cd ..',
      'tony-ts init my-job --yes',
      'tony-ts submit --local --conf my-job/job.yaml',
    ];
    const { stdout } = await runIsolated([...commands, ...job], { cwd: repository, home, socket });
    expect(stdout).toMatch(/local_\d+_0001 succeeded/);
    expect([...used].sort()).toEqual(['/files/', '/npm/', '/simple/']);
  },
  LIMIT_MS,
);

test.skipIf(!isolates)(
  'the documented commands install tony-ts and ship Python packages where nothing can be reached',
  async () => {
    const folder = await temporaryFolder();
    const [home, prefix] = [path.join(folder, 'home'), path.join(folder, 'opt')];
    const job = path.join(folder, 'packages');
    await Promise.all([mkdir(home), mkdir(job)]);
    const [pack = '', packWithWheels = '', makeFolder = '', unpack = '', ...check] =
      await commandsUnder('## A machine that reaches nothing');
    expect([pack, packWithWheels]).toEqual(['npm run offline', expect.stringMatching(/^npm run offline -- --requirements /)]);
    await writeFile(path.join(folder, 'requirements.txt'), 'six==1.17.0\n');
    const archive = /\S+\.tar\.gz/.exec(unpack)?.[0].replace('x64', process.arch) ?? '';
    const options = ['--to', path.join(folder, archive), '--requirements', path.join(folder, 'requirements.txt')];
    await execute('npm', ['run', 'offline', '--', ...options], { cwd: ROOT });

    const program = 'import six, sys\nprint("six", six.__version__, sys.prefix != sys.base_prefix)\n';
    await writeFile(path.join(job, 'packages.py'), program);
    await writeFile(path.join(job, 'offline.txt'), `--no-index\n--find-links ${prefix}/wheels\nsix==1.17.0\n`);
    const python =
      'name: packages\nframework: none\ncommand: python3 packages.py\npython: {requirements: offline.txt}\nroles: {worker: {}}\n';
    await writeFile(path.join(job, 'job.yaml'), python);
    const install = [makeFolder, unpack.replace('x64', process.arch)].map((command) => command.replaceAll('/opt/tony-ts', prefix));
    const profile = [`export PATH='${prefix}/bin':/usr/bin:/bin`, `export TONY_CACHE_DIR='${prefix}/cache'`];
    const packages = ['unset TONY_CACHE_DIR', 'tony-ts submit --conf packages/job.yaml --local --logs all'];
    const { stdout } = await runIsolated([...install, ...profile, ...check, ...packages], { cwd: folder, home });
    expect(stdout.match(/local_\d+_\d{4} succeeded/g)).toHaveLength(2);
    expect(stdout).toMatch(/worker:0 \| six 1\.17\.0 True/);
    const site = await execute('sh', ['-c', `grep -l "A machine that reaches nothing" '${prefix}'/docs/docs/admin/install.html`]);
    expect(site.stdout).toContain('install.html');
  },
  LIMIT_MS,
);
