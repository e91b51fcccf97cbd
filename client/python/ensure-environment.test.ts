import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import type { PythonRequirements } from '../../conf/python.ts';
import { type Environment, ensureEnvironment } from './ensure-environment.ts';
import { makeWheel } from './wheels.fixture.ts';

/** Resolves requirements with the real pip, whose registry is a folder of wheels. */

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'environment-'));
  await mkdir(path.join(folder, 'registry'));
  vi.stubEnv('TONY_CACHE_DIR', path.join(folder, 'cache'));
  vi.stubEnv('PIP_NO_INDEX', '1');
  vi.stubEnv('PIP_FIND_LINKS', path.join(folder, 'registry'));
});

afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

/** Adds a wheel to the registry, and returns its SHA-256. */
function publish(name: string, version: string, platform = 'any', ...needs: string[]): string {
  return makeWheel(path.join(folder, 'registry'), name, version, platform, ...needs);
}

async function ensure(file: string, text: string, wanted: Partial<PythonRequirements> = {}): Promise<Environment> {
  await writeFile(path.join(folder, file), text);
  const platform = 'manylinux_2_28_x86_64';
  return ensureEnvironment({ type: 'requirements', file: path.join(folder, file), version: '3.11', platform, ...wanted });
}

function versionsOf({ packages }: Environment): string[] {
  return packages.map(({ name, version }) => `${name} ${version}`).sort();
}

test('equal requirements keep the packages that pip chose first, and need no registry', async () => {
  publish('one', '1.0', 'manylinux_2_17_x86_64', 'two>=1');
  const sha256 = publish('two', '1.5');
  await writeFile(path.join(folder, 'limits.txt'), 'two<2\n');
  const first = await ensure('requirements.txt', '-c limits.txt\none  # the model\n');
  expect(first).toMatchObject({ python: '3.11', machine: 'x86_64', glibc: '2.17' });
  expect(versionsOf(first)).toEqual(['one 1.0', 'two 1.5']);
  expect(first.packages).toContainEqual({ name: 'two', version: '1.5', glibc: null, sha256 });
  const site = path.join(first.tree, 'lib/python3.11/site-packages');
  expect(await readFile(path.join(site, 'one.py'), 'utf8')).toBe('VERSION = "1.0"');
  expect(JSON.parse(await readFile(path.join(first.tree, 'packages.json'), 'utf8'))).toMatchObject({ machine: 'x86_64' });

  publish('two', '1.6');
  vi.stubEnv('PIP_FIND_LINKS', '/nowhere');
  const lines: string[] = [];
  const file = path.join(folder, 'requirements.txt');
  const wanted = { type: 'requirements', file, version: '3.11', platform: 'manylinux_2_28_x86_64' } as const;
  expect(await ensureEnvironment(wanted, (line) => lines.push(line))).toEqual(first);
  expect(lines).toEqual([expect.stringMatching(/^using the 2 Python packages that pip chose for requirements\.txt on \d{4}-\d\d-\d\d$/)]);

  vi.stubEnv('PIP_FIND_LINKS', path.join(folder, 'registry'));
  await writeFile(path.join(folder, 'limits.txt'), 'two<3\n');
  expect(versionsOf(await ensureEnvironment(wanted))).toEqual(['one 1.0', 'two 1.6']);
});

test('an environment that no submission has used for 30 days is removed when another one is built', async () => {
  publish('one', '1.0');
  const ageOf = (days: number): number => Date.now() / 1000 - days * 24 * 60 * 60;
  const [old, recent] = [await ensure('a.txt', 'one\n'), await ensure('b.txt', 'one  # b\n')];
  await utimes(path.join(path.dirname(old.tree), 'environment.json'), ageOf(31), ageOf(31));
  await utimes(path.join(path.dirname(recent.tree), 'environment.json'), ageOf(29), ageOf(29));
  const latest = await ensure('c.txt', 'one  # c\n');
  expect((await readdir(path.join(folder, 'cache', 'python'))).sort()).toEqual([recent.key, latest.key].sort());
});

test("markers are evaluated for the nodes' Python, whatever Python runs pip", async () => {
  publish('always', '1.0', 'any', 'backport; python_version < "3.9"', 'arm; platform_machine == "aarch64"');
  publish('backport', '1.0');
  publish('arm', '1.0');
  const [old, arm] = [
    await ensure('a.txt', 'always', { version: '3.8' }),
    await ensure('b.txt', 'always', { platform: 'manylinux2014_aarch64' }),
  ];
  expect([versionsOf(old), versionsOf(arm)]).toEqual([
    ['always 1.0', 'backport 1.0'],
    ['always 1.0', 'arm 1.0'],
  ]);
});

test('the dependencies of a pyproject.toml are resolved as those of a package', async () => {
  publish('one', '1.0', 'any', 'two');
  publish('two', '1.0');
  publish('three', '1.0');
  publish('one', '2.0');
  const project = `[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["one<2", "three; python_version < '3.0'"]\n`;
  expect(versionsOf(await ensure('pyproject.toml', project))).toEqual(['one 1.0', 'two 1.0']);
  await expect(ensure('pyproject.toml', project, { version: '3.8' })).rejects.toMatchObject({
    code: 'PYTHON_PACKAGES_NOT_FOUND',
    message: expect.stringContaining("the project requires Python >=3.9, but the nodes' version is 3.8.0"),
  });
  await expect(ensure('pyproject.toml', '[project]\nname = "p"\n')).rejects.toThrow('has no list project.dependencies');
  await expect(ensure('pyproject.toml', '[project\n')).rejects.toThrow('pyproject.toml is not valid TOML');
});

test('a folder of wheels is a registry, and a rebuilt wheel replaces the earlier packages', async () => {
  vi.stubEnv('PIP_NO_INDEX', '');
  vi.stubEnv('PIP_FIND_LINKS', '');
  vi.stubEnv('WHEELS', 'registry');
  await mkdir(path.join(folder, 'more'));
  publish('one', '1.0', 'any', 'two');
  publish('two', '1.0');
  await writeFile(path.join(folder, 'more', 'included.txt'), '--find-links ../registry\none\n');
  const first = await ensure('a.txt', '--no-index\n-r more/included.txt\n');
  expect(versionsOf(first)).toEqual(['one 1.0', 'two 1.0']);
  expect(await ensure('a.txt', '--no-index\n-r more/included.txt\n')).toEqual(first);
  publish('one', '1.0', 'any');
  const rebuilt = await ensure('b.txt', `--no-index\n--find-links=\${WHEELS}\none\n`);
  expect(versionsOf(rebuilt)).toEqual(['one 1.0']);
  publish('one', '1.0', 'any', 'two');
  expect(versionsOf(await ensure('b.txt', `--no-index\n--find-links=\${WHEELS}\none\n`))).toEqual(['one 1.0', 'two 1.0']);
});

/** Serves the registry's wheels to users with the password. */
async function protectedIndex(password: string): Promise<string> {
  const expected = `Basic ${Buffer.from(`me:${password}`).toString('base64')}`;
  const server = createServer(async (request, response) => {
    if (request.headers.authorization !== expected) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="wheels"' }).end();
      return;
    }
    const [, place = '', name = ''] = (request.url ?? '').split('/');
    if (place === 'wheels') {
      response.end(await readFile(path.join(folder, 'registry', name)));
      return;
    }
    const files = (await readdir(path.join(folder, 'registry'))).filter((file) => file.startsWith(`${name}-`));
    response.setHeader('content-type', 'text/html');
    response.end(files.map((file) => `<a href="/wheels/${file}">${file}</a>`).join('\n'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}/simple`;
}

test('an index with a password works by a variable and by netrc, and no file or message contains the password', async () => {
  vi.stubEnv('PIP_NO_INDEX', '');
  vi.stubEnv('PIP_FIND_LINKS', '');
  publish('one', '1.0');
  const password = 'pass-4711';
  const index = await protectedIndex(password);
  vi.stubEnv('INDEX_PASSWORD', password);
  const byVariable = await ensure('a.txt', `--index-url http://me:\${INDEX_PASSWORD}@${index}\none\n`);
  expect(versionsOf(byVariable)).toEqual(['one 1.0']);
  await writeFile(path.join(folder, 'netrc'), `machine 127.0.0.1 login me password ${password}\n`);
  vi.stubEnv('NETRC', path.join(folder, 'netrc'));
  expect(versionsOf(await ensure('b.txt', `--index-url http://${index}\none\n`))).toEqual(['one 1.0']);
  const cached = path.join(folder, 'cache');
  for (const file of (await readdir(cached, { recursive: true, withFileTypes: true })).filter((each) => each.isFile())) {
    const bytes = await readFile(path.join(file.parentPath, file.name));
    const content = file.name.endsWith('.gz') ? gunzipSync(bytes) : bytes;
    expect(content.includes(password), file.name).toBe(false);
  }
  vi.stubEnv('NETRC', '/dev/null');
  vi.stubEnv('INDEX_PASSWORD', 'wrong-4711');
  const refused = await ensure('c.txt', `--index-url http://me:\${INDEX_PASSWORD}@${index}\none  # again\n`).catch(
    (error: unknown) => error,
  );
  expect(refused).toMatchObject({
    code: 'RUNTIME_DOWNLOAD_FAILED',
    message: expect.stringContaining('rejected the user name or password'),
  });
  expect(String(refused)).not.toContain('wrong-4711');
  const shipped = ensure('d.txt', `# of the team\n--extra-index-url https://me:${password}@example.com/simple\none\n`);
  await expect(shipped).rejects.toMatchObject({
    code: 'PYTHON_PACKAGES_NOT_FOUND',
    message: `Line 2 of ${path.join(folder, 'd.txt')} contains a user name or password in a URL.`,
  });
});

test("errors name the next step and include pip's last lines", async () => {
  publish('one', '1.0', 'any', 'two<2');
  publish('two', '2.0');
  publish('old', '1.0', 'manylinux_2_34_x86_64');
  await expect(ensure('a.txt', 'one\ntwo==2.0\n')).rejects.toMatchObject({
    code: 'PYTHON_PACKAGES_NOT_FOUND',
    message: expect.stringMatching(/^the packages of a\.txt require conflicting versions of packages:\n[\s\S]*two/),
    hint: expect.stringContaining('Loosen'),
  });
  await expect(ensure('b.txt', 'old\n')).rejects.toMatchObject({
    code: 'PYTHON_PACKAGES_NOT_FOUND',
    message: expect.stringMatching(/has no wheel for old that the nodes can use:\n[\s\S]*from versions: none/),
    hint: expect.stringContaining('`version` and `platform`'),
  });
  await expect(ensure('setup.py', 'from setuptools import setup\n')).rejects.toMatchObject({
    code: 'PYTHON_PACKAGES_NOT_FOUND',
    message: expect.stringMatching(/^Line 1 of .*setup\.py is not accepted.*: from setuptools import setup$/),
    hint: expect.stringContaining('uv.lock'),
  });
  await expect(ensure('environment.yml', 'name: x\n')).rejects.toMatchObject({ hint: expect.stringContaining('conda-pack') });
  await expect(ensure('c.txt', 'git+https://example.com/x.git\n')).rejects.toThrow('can use only wheels');
  await expect(ensure('d.txt', '-r missing.txt\n')).rejects.toMatchObject({ code: 'SOURCE_NOT_FOUND' });
  expect(await readdir(path.join(folder, 'cache', 'python'))).toEqual([]);
});

test('without pip or without a network, the error says so', async () => {
  const venv = path.join(folder, 'venv');
  execFileSync('python3', ['-m', 'venv', '--without-pip', venv]);
  vi.stubEnv('PATH', `${path.join(venv, 'bin')}:${process.env.PATH}`);
  await expect(ensure('a.txt', 'one\n')).rejects.toMatchObject({
    code: 'RUNTIME_TOOL_NOT_FOUND',
    hint: expect.stringContaining('python3-pip'),
  });
  vi.unstubAllEnvs();
  vi.stubEnv('TONY_CACHE_DIR', path.join(folder, 'cache'));
  vi.stubEnv('PIP_CONFIG_FILE', '/dev/null');
  const options = '--index-url http://127.0.0.1:9/simple\n';
  vi.stubEnv('PIP_RETRIES', '1');
  vi.stubEnv('PIP_FIND_LINKS', '');
  await expect(ensure('b.txt', `${options}one\n`)).rejects.toMatchObject({
    code: 'RUNTIME_DOWNLOAD_FAILED',
    message: expect.stringMatching(/Connection refused|NewConnectionError/),
    hint: expect.stringContaining('`--find-links wheels` in b.txt'),
  });
});

/** Creates a project whose build writes a file. Returns the path of this file. */
async function buildingProject(name: string): Promise<string> {
  const built = path.join(folder, `${name}-built`);
  const project = path.join(folder, name);
  await mkdir(project);
  const toml = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n';
  await writeFile(path.join(project, 'pyproject.toml'), toml);
  const setup = `open(${JSON.stringify(built)}, "w")\nraise SystemExit(1)\n`;
  await writeFile(path.join(project, 'backend.py'), setup);
  await writeFile(path.join(project, 'setup.py'), setup);
  await writeFile(path.join(project, 'PKG-INFO'), `Metadata-Version: 1.1\nName: ${name}\nVersion: 1.0\n`);
  execFileSync('tar', ['-czf', `${name}-1.0.tar.gz`, name], { cwd: folder });
  execFileSync('cp', [`${name}-1.0.tar.gz`, 'registry'], { cwd: folder });
  return built;
}

test('pip never builds a package, whatever line names it', async () => {
  publish('one', '1.0');
  const built = await buildingProject('evil');
  await writeFile(path.join(folder, 'included.txt'), './evil\n');
  const archive = `file://${folder}/evil-1.0.tar.gz`;
  const refused = [
    './evil',
    'evil-1.0.tar.gz',
    'evil-1.0.tar.gz[x]',
    './evil-1.0.tar.gz',
    `${folder}/evil`,
    archive,
    `${archive}#egg=evil.whl`,
    `evil @ ${archive}`,
    `evil @ file://${folder}/evil`,
    'evil @ https://example.com/evil-1.0.tar.gz#.whl',
    'https://example.com/evil-1.0.tar.gz?x=.whl',
    'https://example.com/evil-1.0.zip',
    '-e ./evil',
    '--edit ./evil',
    '--no-index --editable=./evil',
    'evil --no-binary :all:',
    '--no-binary evil',
    '--no-b=:all:',
    '--only-binary :none:',
    '--prefer-binary --no-binary=evil',
    '-r included.txt',
    '-rincluded.txt',
    '-c included.txt',
    '--no-index -r included.txt',
    '-r https://example.com/requirements.txt',
    '-c http://example.com/constraints.txt',
    'git+https://example.com/x.git',
    'evil @ git+file:///tmp/x',
    'one --config-settings x=y',
    '--use-feature fast-deps',
    '# comment \\\n./evil',
    '# comment\v./evil',
    '# comment\u2028./evil',
    'one\\\n# comment\n./evil',
    `\${EVIL}`,
  ];
  vi.stubEnv('EVIL', './evil');
  for (const [at, line] of refused.entries()) {
    await expect(ensure(`r${at}.txt`, `${line}\none\n`), line).rejects.toMatchObject({ code: 'PYTHON_PACKAGES_NOT_FOUND' });
  }
  expect(await readdir(folder)).not.toContain(path.basename(built));
});

test('pip starts no program for a source archive that the metadata of a wheel or a project requires', async () => {
  const built = await buildingProject('evil');
  const archive = `evil @ file://${folder}/evil-1.0.tar.gz`;
  publish('direct', '1.0', 'any', archive);
  publish('folder', '1.0', 'any', `evil @ file://${folder}/evil`);
  publish('repository', '1.0', 'any', 'evil @ git+https://127.0.0.1:9/x');
  await mkdir(path.join(folder, 'bin'));
  await writeFile(path.join(folder, 'bin', 'git'), `#!/bin/sh\ntouch ${built}\n`, { mode: 0o755 });
  vi.stubEnv('PATH', `${path.join(folder, 'bin')}:${process.env.PATH}`);
  const project = (dependency: string): string => `[project]\nname = "p"\nversion = "1"\ndependencies = [${JSON.stringify(dependency)}]\n`;
  for (const [file, text] of [
    ['a.txt', 'direct\n'],
    ['b.txt', 'folder\n'],
    ['c.txt', 'repository\n'],
    ['pyproject.toml', project(archive)],
    ['pyproject.toml', project('one\n./evil')],
    ['pyproject.toml', project('-r a.txt')],
    ['pyproject.toml', project('direct')],
  ] as const) {
    await expect(ensure(file, text), text).rejects.toMatchObject({
      code: 'PYTHON_PACKAGES_NOT_FOUND',
      message: expect.stringMatching(/evil.* must be built from its source.* only wheels|is not a requirement/),
    });
  }
  // An index may offer a source archive as well.
  await expect(ensure('d.txt', 'evil\n')).rejects.toThrow('has no wheel for evil');
  expect(await readdir(folder)).not.toContain(path.basename(built));
});

test('wheels are accepted by path and URL, with extras, markers and checksums', async () => {
  const digest = publish('one', '1.0', 'any', 'two; extra == "more"\nProvides-Extra: more');
  publish('two', '1.0');
  publish('three', '1.0');
  const wheels = path.join(folder, 'my # wheels');
  await mkdir(wheels);
  execFileSync('cp', ['registry/one-1.0-py3-none-any.whl', 'registry/three-1.0-py3-none-any.whl', wheels], { cwd: folder });
  await writeFile(path.join(wheels, 'limits.txt'), 'two<2  # limit\n');
  await writeFile(
    path.join(wheels, 'list.txt'),
    [
      '\uFEFF# packages',
      '-c limits.txt',
      'two >= 1.0 , != 1.5 ; python_version >= "3.8"',
      './my # wheels/three.whl ; python_version < "3.0"',
      'three @ file://./three.whl ; python_version < "3.0"',
    ]
      .filter((line) => !line.includes('three'))
      .join('\r\n'),
  );
  const text = `-r "x"\n`;
  await expect(ensure('quoted.txt', text)).rejects.toMatchObject({ code: 'PYTHON_PACKAGES_NOT_FOUND' });
  const wheel = './registry/one-1.0-py3-none-any.whl';
  expect(versionsOf(await ensure('a.txt', `${wheel}[more] ; python_version >= "3.8"\n`))).toEqual(['one 1.0', 'two 1.0']);
  expect(versionsOf(await ensure('b.txt', `${wheel} \\\n    --hash=sha256:${digest}\n    # via x\n`))).toEqual(['one 1.0']);
  expect(versionsOf(await ensure('c.txt', `one @ file://${folder}/registry/one-1.0-py3-none-any.whl ; python_version >= "3"\n`))).toEqual([
    'one 1.0',
  ]);
  const wanted = { type: 'requirements', version: '3.11', platform: 'manylinux_2_28_x86_64' } as const;
  expect(versionsOf(await ensureEnvironment({ ...wanted, file: path.join(wheels, 'list.txt') }))).toEqual(['two 1.0']);
  await writeFile(path.join(wheels, 'own.txt'), 'three-1.0-py3-none-any.whl\n');
  expect(versionsOf(await ensureEnvironment({ ...wanted, file: path.join(wheels, 'own.txt') }))).toEqual(['three 1.0']);
  const links = 'one\n--no-index --find-links .\n';
  vi.stubEnv('PIP_FIND_LINKS', '');
  await writeFile(path.join(wheels, 'links.txt'), links);
  expect(versionsOf(await ensureEnvironment({ ...wanted, file: path.join(wheels, 'links.txt') }))).toEqual(['one 1.0']);
});
