import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { listFolder, listSource } from './source-folder.ts';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'tony-source-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function write(files: Record<string, string>): Promise<void> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), content);
  }
}

async function names(exclude: string[] = []): Promise<string[]> {
  return (await listSource(folder, exclude)).entries.map((entry) => entry.path);
}

describe('listSource', () => {
  test('lists everything except version control folders, in a fixed order, each folder before its contents', async () => {
    await write({ 'b.ts': 'b', 'a/x.ts': 'x', 'a-b.ts': '-', '.git/HEAD': 'ref', 'node_modules/m/index.js': 'm' });
    expect(await names()).toEqual(['a', 'a-b.ts', 'a/x.ts', 'b.ts', 'node_modules', 'node_modules/m', 'node_modules/m/index.js']);
  });

  test("excludes Python's caches, and virtual environments unless .tonyignore re-includes them", async () => {
    await write({ 'train.py': '', 'pkg/__pycache__/a.pyc': '', '.venv/pyvenv.cfg': '', 'env/pyvenv.cfg': '' });
    await mkdir(path.join(folder, '.venv', 'bin'));
    await symlink('/usr/bin/python3', path.join(folder, '.venv', 'bin', 'python3'));
    expect(await names()).toEqual(['pkg', 'train.py']);
    await write({ '.tonyignore': '!env/\n' });
    expect(await names()).toEqual(['.tonyignore', 'env', 'env/pyvenv.cfg', 'pkg', 'train.py']);
  });

  test('excludes the paths that .tonyignore and `exclude` name, except those that .tonyignore re-includes', async () => {
    await write({
      '.tonyignore': 'node_modules/\n*.log\n!keep.log\n!.git/\n',
      'x.log': '',
      'keep.log': '',
      'node_modules/m.js': '',
      '.git/HEAD': '',
      'tmp/a': '',
      'a.ts': '',
    });
    expect(await names(['/tmp'])).toEqual(['.git', '.git/HEAD', '.tonyignore', 'a.ts', 'keep.log']);
  });

  test('excludes files whose names suggest secrets, and reports them', async () => {
    await write({
      '.env': '',
      '.env.local': '',
      '.env.example': '',
      '.npmrc': '',
      '.aws/credentials': '',
      'keys/id_rsa': '',
      'keys/server.pem': '',
      'keys/id_ed25519_sk': '',
      'service-account-train.json': '',
      'node_modules/m/roots.pem': '',
      'environment.ts': '',
    });
    const { entries, withheld } = await listSource(folder, []);
    expect(entries.filter(({ type }) => type === 'file').map((entry) => entry.path)).toEqual([
      '.env.example',
      'environment.ts',
      'node_modules/m/roots.pem',
    ]);
    expect(withheld).toEqual([
      ...['.aws/', '.env', '.env.local', '.npmrc', 'keys/id_ed25519_sk', 'keys/id_rsa', 'keys/server.pem', 'service-account-train.json'],
    ]);
  });

  test('includes a secret that .tonyignore re-includes, and does not report files that .tonyignore or `exclude` excludes', async () => {
    await write({ '.tonyignore': '!.env\nkeys/\n', '.env': '', 'keys/id_rsa': '', '.npmrc': '', 'a.key': '' });
    const { entries, withheld } = await listSource(folder, ['*.key']);
    expect(entries.map((entry) => entry.path)).toEqual(['.env', '.tonyignore']);
    expect(withheld).toEqual(['.npmrc']);
  });

  test('keeps links to targets inside the folder, and makes absolute targets relative', async () => {
    await write({ 'lib/a.js': 'a' });
    await symlink('../lib/a.js', path.join(folder, 'lib', 'again.js'));
    await symlink(path.join(folder, 'lib'), path.join(folder, 'absolute'));
    await symlink('nowhere', path.join(folder, 'dangling'));
    const { entries } = await listSource(folder, []);
    expect(entries.filter((entry) => entry.type === 'link')).toEqual([
      { type: 'link', path: 'absolute', target: 'lib' },
      { type: 'link', path: 'dangling', target: 'nowhere' },
      { type: 'link', path: 'lib/again.js', target: '../lib/a.js' },
    ]);
  });

  test.each(['/etc/passwd', '../../etc/passwd', '..'])('rejects a link to %s', async (target) => {
    await symlink(target, path.join(folder, 'out'));
    await expect(listSource(folder, [])).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringContaining(`/out is a link to ${target}`),
    });
    expect((await listSource(folder, ['out'])).entries).toEqual([]);
  });

  test.each([
    ['self', '.'],
    ['lib/root', '..'],
    ['lib/deep/up', '../../lib'],
  ])('rejects the link %s to %s, a loop in which YARN cannot list the folder', async (name, target) => {
    await mkdir(path.join(folder, 'lib', 'deep'), { recursive: true });
    await symlink(target, path.join(folder, name));
    await expect(listSource(folder, [])).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringContaining(`${name} is a link to ${target}, which makes a loop: ${name} leads back to `),
    });
    expect((await listSource(folder, [name])).entries.filter(({ type }) => type === 'link')).toEqual([]);
  });

  test('rejects links that lead to each other', async () => {
    await write({ 'a/file': '', 'b/file': '' });
    await symlink('../b', path.join(folder, 'a', 'x'));
    await symlink('../a', path.join(folder, 'b', 'y'));
    await expect(listSource(folder, [])).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringMatching(
        /is a link to \.\.\/., which makes a loop: (a\/x\/y leads back to \S+\/a|b\/y\/x leads back to \S+\/b)\. YARN/,
      ),
    });
    expect((await listSource(folder, ['b/y'])).entries).toContainEqual({ type: 'link', path: 'a/x', target: '../b' });
  });

  test('rejects a link that leads only to itself', async () => {
    await symlink('self', path.join(folder, 'self'));
    await expect(listSource(folder, [])).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      message: expect.stringContaining('self is a link to self, which leads only to itself'),
    });
  });

  test('keeps a loop that is too deep for YARN to list', async () => {
    await mkdir(path.join(folder, 'a/b/c/d'), { recursive: true });
    await symlink('..', path.join(folder, 'a/b/c/d/up'));
    expect((await listSource(folder, [])).entries).toContainEqual({ type: 'link', path: 'a/b/c/d/up', target: '..' });
  });

  test('rejects a link whose final target is outside the folder', async () => {
    const outside = await mkdtemp(path.join(tmpdir(), 'tony-outside-'));
    await symlink(outside, path.join(folder, 'hop'));
    await symlink('hop/..', path.join(folder, 'chain'));
    await expect(listSource(folder, ['hop'])).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    await rm(outside, { recursive: true });
  });

  test('rejects a missing folder, a file instead of a folder, and entries that are not files', async () => {
    await expect(listSource(path.join(folder, 'none'), [])).rejects.toMatchObject({ code: 'SOURCE_NOT_FOUND', exitCode: 2 });
    await write({ file: '' });
    await expect(listSource(path.join(folder, 'file'), [])).rejects.toMatchObject({
      code: 'SOURCE_NOT_FOUND',
      message: expect.stringContaining('is not a folder'),
    });
    execFileSync('mkfifo', [path.join(folder, 'pipe')]);
    await expect(listSource(folder, [])).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
  });
});

test('listFolder lists everything, including version control folders', async () => {
  await write({ '.git/HEAD': 'ref', a: '12345' });
  expect(await listFolder(folder, 'data folder')).toMatchObject({
    bytes: 8,
    entries: [{ path: '.git' }, { path: '.git/HEAD' }, { path: 'a', size: 5 }],
  });
});

test('a name that is not UTF-8 is rejected with the way out, unless it is ignored', async () => {
  await writeFile(Buffer.concat([Buffer.from(`${folder}/latin`), Buffer.from([0xe9]), Buffer.from('.txt')]), '');
  await expect(listSource(folder, [])).rejects.toMatchObject({
    code: 'SOURCE_UNREADABLE',
    message: expect.stringContaining('is not valid UTF-8'),
    hint: expect.stringContaining('.tonyignore'),
  });
  expect((await listSource(folder, ['latin*'])).entries).toEqual([]);
});
