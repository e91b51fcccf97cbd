import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');

/** Source folders, each with the lower folders that it may import. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  platform: [],
  protos: [],
  hadoop: ['protos', 'platform'],
  conf: ['hadoop', 'platform'],
  storage: ['hadoop', 'conf', 'platform'],
  training: ['storage', 'hadoop', 'conf', 'platform'],
  web: ['training', 'storage', 'hadoop', 'conf', 'platform'],
  'task-executor': ['training', 'storage', 'hadoop', 'conf', 'protos', 'platform'],
  'application-master': ['web', 'training', 'storage', 'hadoop', 'conf', 'protos', 'platform'],
  client: ['web', 'training', 'storage', 'hadoop', 'conf', 'protos', 'platform'],
  // Users copy the examples, so the examples import the package by name, as user scripts do.
  examples: [],
};

interface Import {
  readonly file: string;
  readonly specifier: string;
}

const tracked = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT, encoding: 'utf8' })
  .split('\0')
  // Excludes files that git tracks but that were deleted in the working tree.
  .filter((file) => file !== '' && existsSync(path.join(ROOT, file)));

/** Matches `import ... from 'x'`, `export ... from 'x'`, `import 'x'` and `import('x')`. */
const SPECIFIER = /\b(?:from|import)\s*\(?\s*['"]([^'"\n]+)['"]/g;

function importsOf(file: string): Import[] {
  // Removes comments, because some contain an import as an example.
  const text = readFileSync(path.join(ROOT, file), 'utf8').replace(/^\s*(\*|\/\*|\/\/).*$/gm, '');
  return [...text.matchAll(SPECIFIER)].map(([, specifier = '']) => ({ file, specifier }));
}

/** Matches tests, fixtures, and the programs that tests run. */
const IN_TESTS = /\.(test|fixture)\.|\/testing\/|^integration-tests\/programs\//;

function roomOf(file: string): string {
  return file.split('/')[0] ?? '';
}

const sources = tracked.filter((file) => /\.(ts|mts|js|mjs)$/.test(file) && roomOf(file) in MAY_IMPORT);
const imports = sources.flatMap(importsOf);

test('top-level folders import only from the folders listed for them', () => {
  const upwards = imports.filter(({ file, specifier }) => {
    if (!specifier.startsWith('.')) {
      return false;
    }
    const from = roomOf(file);
    const to = roomOf(path.posix.join(path.posix.dirname(file), specifier));
    return to !== from && to !== 'package.json' && !MAY_IMPORT[from]?.includes(to);
  });
  expect(upwards).toEqual([]);
});

test('neither files nor the sub-folders of a top-level folder import each other in a cycle, not even for types', () => {
  const pairs = imports
    .filter(({ file, specifier }) => specifier.startsWith('.') && !IN_TESTS.test(file))
    .map(({ file, specifier }) => [file, path.posix.join(path.posix.dirname(file), specifier)] as const);
  expect(inCycles(pairs)).toEqual([]);
  const folders = pairs
    .filter(([from, to]) => roomOf(from) === roomOf(to))
    .map(([from, to]) => [path.posix.dirname(from), path.posix.dirname(to)] as const);
  expect(inCycles(folders.filter(([from, to]) => from !== to))).toEqual([]);
});

test('each exported type has a name of its own', () => {
  const declared = sources
    .filter((file) => !/\.(test|fixture)\.|\/(testing|simulator)\/|^examples\//.test(file))
    .flatMap((file) => {
      const text = readFileSync(path.join(ROOT, file), 'utf8');
      return [...text.matchAll(/^export (?:abstract )?(?:type|interface|class) (\w+)/gm)].map(([, name = '']) => ({ name, file }));
    });
  const count = new Map<string, number>();
  for (const { name } of declared) {
    count.set(name, (count.get(name) ?? 0) + 1);
  }
  expect(declared.length).toBeGreaterThan(500);
  expect(declared.filter(({ name }) => count.get(name) !== 1)).toEqual([]);
});

/** Returns the nodes of a directed graph that can reach themselves. */
function inCycles(edges: readonly (readonly [from: string, to: string])[]): string[] {
  const next = new Map<string, Set<string>>();
  for (const [from, to] of edges) {
    next.set(from, (next.get(from) ?? new Set()).add(to));
  }
  const reaches = (from: string, to: string, seen = new Set<string>()): boolean =>
    [...(next.get(from) ?? [])].some((node) => node === to || (!seen.has(node) && reaches(node, to, seen.add(node))));
  return [...next.keys()].filter((node) => reaches(node, node));
}

test('docs/architecture.md describes exactly the folders with source files', () => {
  const described = [...readFileSync(path.join(ROOT, 'docs/architecture.md'), 'utf8').matchAll(/^\| `([a-z0-9/-]+)\/` \|/gm)].map(
    ([, folder]) => folder,
  );
  const folders = new Set(
    sources.filter((file) => !IN_TESTS.test(file) && roomOf(file) !== 'examples').map((file) => path.posix.dirname(file)),
  );
  const here = described.filter((folder = '') => roomOf(folder) in MAY_IMPORT && roomOf(folder) !== 'examples');
  const withFiles = [...folders].filter((folder) => folder !== 'client' && folder !== 'training');
  expect(here.toSorted()).toEqual(withFiles.toSorted());
});

test('no folder contains more than 20 source files', () => {
  const folders = new Map<string, number>();
  for (const file of tracked.filter((file) => /\.(ts|mts|js|mjs|py)$/.test(file) && !IN_TESTS.test(file))) {
    const folder = path.posix.dirname(file);
    folders.set(folder, (folders.get(folder) ?? 0) + 1);
  }
  expect([...folders].filter(([, files]) => files > 20)).toEqual([]);
});

test('only examples import the package by its name', () => {
  const named = imports.filter(({ file, specifier }) => /^tony-ts(\/|$)/.test(specifier) && roomOf(file) !== 'examples');
  expect(named).toEqual([]);
});

test('the checks find the source files and their imports', () => {
  expect(sources.length).toBeGreaterThan(20);
  expect(imports).toContainEqual({ file: 'platform/log.ts', specifier: 'pino' });
});

test("no file contains a path of a developer's machine", () => {
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
