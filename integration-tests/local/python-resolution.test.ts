import { once } from 'node:events';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { type Environment, ensureEnvironment } from '../../client/python/ensure-environment.ts';
import { makeWheel } from '../../client/python/wheels.fixture.ts';
import { ROOT } from '../command.ts';
import { execute } from '../execute.ts';
import { temporaryFolder } from '../harness.ts';
import { pythonWith } from '../python-environment.ts';

/** Resolves packages with the oldest and the newest pip, with uv, and with an index that has its own certificate. */

// RedHat 9 has pip 21.3.1.
const PIPS = ['21.3.1', '26.3'];
const UV = '0.13.8';

let folder: string;
let registry: string;

beforeAll(async () => {
  for (const pip of PIPS) {
    await pythonWith(programsWith(pip), [`pip==${pip}`, `uv==${UV}`]);
  }
});

beforeEach(async () => {
  folder = await temporaryFolder();
  registry = path.join(folder, 'registry');
  await mkdir(registry);
  vi.stubEnv('TONY_CACHE_DIR', path.join(folder, 'cache'));
  vi.stubEnv('PIP_NO_INDEX', '1');
  vi.stubEnv('PIP_FIND_LINKS', registry);
});

afterEach(() => {
  vi.unstubAllEnvs();
});

function programsWith(pip: string): string {
  return path.join(ROOT, '.cache', `python-pip-${pip}-uv-${UV}`);
}

/** Puts uv and a Python with this pip at the beginning of the PATH. */
function usePip(pip: string): void {
  vi.stubEnv('PATH', `${path.join(programsWith(pip), 'bin')}:${process.env.PATH}`);
}

function ensure(file: string, version = '3.11', platform = 'manylinux_2_28_x86_64'): Promise<Environment> {
  return ensureEnvironment({ type: 'requirements', file: path.join(folder, file), version, platform });
}

function namesOf({ packages }: Environment): string[] {
  return packages.map(({ name }) => name).sort();
}

test.each(PIPS)('pip %s resolves packages for the nodes, and builds none', async (pip) => {
  usePip(pip);
  const needs = ['old; python_version < "3.9"', 'arm; platform_machine == "aarch64"', 'mac; sys_platform == "darwin"'];
  makeWheel(registry, 'always', '1.0', 'any', ...needs, 'patch; python_full_version < "3.8.1"', 'same; implementation_version < "3.8.1"');
  for (const name of ['old', 'arm', 'mac', 'patch', 'same']) {
    makeWheel(registry, name, '1.0');
  }
  await writeFile(path.join(folder, 'requirements.txt'), 'always\n');
  expect(namesOf(await ensure('requirements.txt', '3.8', 'manylinux2014_aarch64'))).toEqual(['always', 'arm', 'old', 'patch', 'same']);
  expect(namesOf(await ensure('requirements.txt', '3.12', 'manylinux_2_27_ppc64le'))).toEqual(['always']);

  const built = path.join(folder, 'built');
  const source = path.join(folder, 'source');
  await mkdir(source);
  await writeFile(path.join(source, 'setup.py'), `open(${JSON.stringify(built)}, "w")\n`);
  makeWheel(registry, 'direct', '1.0', 'any', `evil @ file://${source}`);
  await writeFile(path.join(folder, 'direct.txt'), 'direct\n');
  await expect(ensure('direct.txt')).rejects.toMatchObject({
    code: 'PYTHON_PACKAGES_NOT_FOUND',
    message: expect.stringMatching(/source.* must be built from its source, but the nodes can use only wheels/),
  });
  const project = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["always"]\n';
  await writeFile(path.join(folder, 'pyproject.toml'), project);
  expect(namesOf(await ensure('pyproject.toml'))).toEqual(['always']);
  await expect(ensure('pyproject.toml', '3.8')).rejects.toThrow('the project requires Python >=3.9');
  expect(await readdir(folder)).not.toContain('built');
});

test('uv reads uv.lock, pip verifies its checksums, and the error without uv names the next step', async () => {
  const digests = ['one', 'two', 'three', 'gone'].map((name) => makeWheel(registry, name, '1.0'));
  makeWheel(registry, 'one', '2.0');
  const entry = (name: string, at: number, more = ''): string =>
    `[[package]]\nname = "${name}"\nversion = "1.0"\nsource = { registry = "https://example.com/simple" }\n${more}wheels = [{ url = "https://example.com/${name}-1.0-py3-none-any.whl", hash = "sha256:${digests[at]}" }]\n`;
  const lock = [
    'version = 1\nrequires-python = ">=3.8"',
    '[[package]]\nname = "p"\nversion = "1"\nsource = { virtual = "." }\ndependencies = [{ name = "one", extra = ["more"] }, { name = "gone", marker = "python_full_version < \'3.9\'" }]',
    `${entry('one', 0, 'dependencies = [{ name = "two" }]\n')}\n[package.optional-dependencies]\nmore = [{ name = "three" }]`,
    entry('two', 1),
    entry('three', 2),
    entry('gone', 3),
  ].join('\n');
  await writeFile(path.join(folder, 'pyproject.toml'), '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.8"\n');
  const write = (text: string): Promise<void> => writeFile(path.join(folder, 'uv.lock'), text);
  await write(lock);
  const programs = process.env.PATH ?? '';
  vi.stubEnv('PATH', '/nowhere');
  await expect(ensure('uv.lock')).rejects.toMatchObject({
    code: 'RUNTIME_TOOL_NOT_FOUND',
    hint: expect.stringMatching(/pip install uv.*uv export --frozen --no-dev --no-emit-project --output-file requirements\.txt/),
  });
  vi.stubEnv('PATH', programs);
  usePip('26.3');
  expect(namesOf(await ensure('uv.lock'))).toEqual(['one', 'three', 'two']);
  expect(namesOf(await ensure('uv.lock', '3.8'))).toEqual(['gone', 'one', 'three', 'two']);
  await write(lock.replace(digests[1] ?? '', '0'.repeat(64)));
  await expect(ensure('uv.lock')).rejects.toMatchObject({ code: 'RUNTIME_HASH_MISMATCH' });
  for (const source of ['{ directory = "two" }', '{ git = "https://example.com/two?rev=1#0123456789012345678901234567890123456789" }']) {
    await write(lock.replace(entry('two', 1), `[[package]]\nname = "two"\nversion = "1.0"\nsource = ${source}\n`));
    await expect(ensure('uv.lock'), source).rejects.toMatchObject({
      code: 'PYTHON_PACKAGES_NOT_FOUND',
      message: expect.stringContaining('only wheels'),
    });
  }
  await write('version = 7\n');
  await expect(ensure('uv.lock')).rejects.toMatchObject({ code: 'PYTHON_PACKAGES_NOT_FOUND', hint: expect.stringContaining('uv lock') });
});

/** Starts an index with a self-signed certificate. Returns its URL and the file of the certificate. */
async function ownIndex(): Promise<{ readonly url: string; readonly certificate: string }> {
  const [key, certificate] = [path.join(folder, 'key.pem'), path.join(folder, 'certificate.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-days', '2'];
  await execute('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', ...subject, '-keyout', key, '-out', certificate]);
  const server = createServer({ key: await readFile(key), cert: await readFile(certificate) }, async (request, response) => {
    const [, place = '', name = ''] = (request.url ?? '').split('/');
    if (place === 'wheels') {
      response.end(await readFile(path.join(registry, name)));
      return;
    }
    const files = (await readdir(registry)).filter((file) => file.startsWith(`${name}-`));
    response.setHeader('content-type', 'text/html');
    response.writeHead(files.length === 0 ? 404 : 200);
    response.end(files.map((file) => `<a href="/wheels/${file}">${file}</a>`).join('\n'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `https://localhost:${(server.address() as AddressInfo).port}/simple`, certificate };
}

test("pip's own settings apply: the certificate of an index, an extra index, and an index without packages", async () => {
  makeWheel(registry, 'one', '1.0', 'any', 'two');
  makeWheel(registry, 'two', '1.0');
  const { url, certificate } = await ownIndex();
  const settings = `[global]\nindex-url = ${url.replace('simple', 'empty/simple')}\nretries = 0\n[download]\nextra-index-url = ${url}\n`;
  await writeFile(path.join(folder, 'pip.conf'), settings);
  vi.stubEnv('PIP_NO_INDEX', '');
  vi.stubEnv('PIP_FIND_LINKS', '');
  // The variables of the requests library precede PIP_CERT.
  vi.stubEnv('REQUESTS_CA_BUNDLE', '');
  vi.stubEnv('CURL_CA_BUNDLE', '');
  vi.stubEnv('PIP_CERT', '');
  vi.stubEnv('PIP_CONFIG_FILE', path.join(folder, 'pip.conf'));
  await writeFile(path.join(folder, 'a.txt'), 'one\n');
  await expect(ensure('a.txt')).rejects.toMatchObject({
    code: 'RUNTIME_DOWNLOAD_FAILED',
    message: expect.stringMatching(/certificate verify failed/i),
  });
  vi.stubEnv('PIP_CERT', certificate);
  expect(namesOf(await ensure('a.txt'))).toEqual(['one', 'two']);
  await writeFile(path.join(folder, 'b.txt'), 'three\n');
  await expect(ensure('b.txt')).rejects.toMatchObject({
    code: 'PYTHON_PACKAGES_NOT_FOUND',
    message: expect.stringContaining('the registry has no wheel for three'),
  });
});
