import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');

/** Every room, and the rooms below it that it may know. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  conf: [],
  protos: [],
  hadoop: ['conf', 'protos'],
  storage: ['hadoop', 'conf'],
  training: ['storage', 'hadoop', 'conf', 'protos'],
  web: ['training', 'storage', 'hadoop', 'conf', 'protos'],
  'task-executor': ['training', 'storage', 'hadoop', 'conf', 'protos'],
  'application-master': ['web', 'training', 'storage', 'hadoop', 'conf', 'protos'],
  client: ['web', 'training', 'storage', 'hadoop', 'conf', 'protos'],
  // People copy these: they name the package, as any user's script does.
  examples: [],
};

interface Import {
  readonly file: string;
  readonly specifier: string;
}

const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
  .split('\0')
  // What git knows and somebody has just removed.
  .filter((file) => file !== '' && existsSync(path.join(ROOT, file)));

/** `import ... from 'x'`, `export ... from 'x'`, `import 'x'`, `import('x')`. */
const SPECIFIER = /\b(?:from|import)\s*\(?\s*['"]([^'"\n]+)['"]/g;

function importsOf(file: string): Import[] {
  // A comment may show how the package is used.
  const text = readFileSync(path.join(ROOT, file), 'utf8').replace(/^\s*(\*|\/\*|\/\/).*$/gm, '');
  return [...text.matchAll(SPECIFIER)].map(([, specifier = '']) => ({ file, specifier }));
}

function roomOf(file: string): string {
  return file.split('/')[0] ?? '';
}

const sources = tracked.filter((file) => /\.(ts|mts|js|mjs)$/.test(file) && roomOf(file) in MAY_IMPORT);
const imports = sources.flatMap(importsOf);

test('rooms import downwards only', () => {
  const upwards = imports.filter(({ file, specifier }) => {
    if (!specifier.startsWith('.')) return false;
    const from = roomOf(file);
    const to = roomOf(path.posix.join(path.posix.dirname(file), specifier));
    return to !== from && to !== 'package.json' && !MAY_IMPORT[from]?.includes(to);
  });
  expect(upwards).toEqual([]);
});

test('only examples name the package itself', () => {
  const named = imports.filter(({ file, specifier }) => /^tony-ts(\/|$)/.test(specifier) && roomOf(file) !== 'examples');
  expect(named).toEqual([]);
});

test('the rule sees what it is for', () => {
  expect(sources.length).toBeGreaterThan(20);
  expect(imports).toContainEqual({ file: 'conf/log.ts', specifier: 'pino' });
});

test('no file names a place of the machine it was written on', () => {
  // Alice and Bob are the users of tests.
  const somebodysHome = /(?<![\w.~-])\/(?:home|Users)\/(?!alice\b|bob\b)[a-z][\w.-]*\//;
  const top = `/${ROOT.split('/')[1]}/`;
  const usual = ['/home/', '/Users/', '/tmp/', '/var/', '/usr/', '/opt/', '/srv/', '/mnt/', '/root/', '/private/', '/builds/'];
  const ours = usual.includes(top) ? `${ROOT}/` : top;
  const named = tracked.flatMap((file) => {
    const lines = readFileSync(path.join(ROOT, file), 'utf8').split('\n');
    return lines.flatMap((line, index) => {
      const at = line.indexOf(ours);
      const here = at >= 0 && !/[\w.~-]/.test(line[at - 1] ?? '');
      return here || somebodysHome.test(line) ? [`${file}:${index + 1}: ${line.trim().slice(0, 120)}`] : [];
    });
  });
  expect(named).toEqual([]);
});
