import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { FRAMEWORK_NAMES } from '../conf/frameworks/names.ts';
import { BUNDLES } from '../tools/build.mjs';

const ROOT = path.resolve(import.meta.dirname, '..');

/** The programs that a framework runs in tasks. Only `tools/build.mjs` uses them, so they may import what a program may import. */
const FRAMEWORK_PROGRAMS = /^conf\/frameworks\/[a-z]+\/programs\//;

/** Source folders, each with the lower folders that it may import. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  platform: [],
  protos: [],
  hadoop: ['protos', 'platform'],
  conf: ['hadoop', 'platform'],
  storage: ['hadoop', 'conf', 'platform'],
  'conf/frameworks/*/programs': ['contract', 'storage', 'hadoop', 'conf', 'platform'],
  contract: ['storage', 'hadoop', 'conf', 'platform'],
  // The TensorFlow.js library. Only its users import it.
  training: ['contract', 'storage', 'hadoop', 'conf', 'platform'],
  web: ['contract', 'storage', 'hadoop', 'conf', 'platform'],
  'task-executor': ['contract', 'storage', 'hadoop', 'conf', 'protos', 'platform'],
  'application-master': ['web', 'contract', 'storage', 'hadoop', 'conf', 'protos', 'platform'],
  client: ['web', 'contract', 'storage', 'hadoop', 'conf', 'protos', 'platform'],
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
  return FRAMEWORK_PROGRAMS.test(file) ? 'conf/frameworks/*/programs' : (file.split('/')[0] ?? '');
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

test('no file imports a program, because a program starts its work when it is loaded', () => {
  const programs = BUNDLES.map(({ source }) => source).filter((source) => /\bmain\.ts$|register|launcher|worker/.test(source));
  expect(programs.length).toBeGreaterThan(8);
  const importing = imports
    .map(({ file, specifier }) => ({ file, imported: path.posix.join(path.posix.dirname(file), specifier) }))
    .filter(({ imported }) => programs.includes(imported));
  expect(importing).toEqual([]);
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

test('docs/folders.md describes exactly the folders with source files', () => {
  const described = [...readFileSync(path.join(ROOT, 'docs/folders.md'), 'utf8').matchAll(/^\| `([a-z0-9/-]+)\/` \|/gm)].map(
    ([, folder]) => folder,
  );
  const folders = new Set(
    sources.filter((file) => !IN_TESTS.test(file) && roomOf(file) !== 'examples').map((file) => path.posix.dirname(file)),
  );
  const here = described.filter((folder = '') => roomOf(folder) in MAY_IMPORT && roomOf(folder) !== 'examples');
  const withFiles = [...folders].filter((folder) => folder !== 'client' && folder !== 'training');
  expect(here.toSorted()).toEqual(withFiles.toSorted());
});

test('besides examples, only the type of the function that `run` calls comes from the package by its name', () => {
  const named = imports.filter(({ file, specifier }) => /^tony-ts(\/|$)/.test(specifier) && roomOf(file) !== 'examples');
  expect(named).toEqual([{ file: 'client/submit/run.ts', specifier: 'tony-ts/training' }]);
});

test("only a framework's folder knows its name", () => {
  // TonY has frameworks of its own, whose names `tony-import` translates. `training` and the runtime use TensorFlow's packages.
  const mayName = /^conf\/frameworks(\/|\.ts$)|^client\/tony-import\/|^client\/runtime\/(pins|build-runtime)\.ts$|^training\//;
  // `none` is also a value of other settings.
  const literal = new RegExp(`'(${FRAMEWORK_NAMES.filter((name) => name !== 'none').join('|')})'|\\bframework\\b[^;{}]{0,20}'none'`, 'g');
  const named = sources
    .filter((file) => !IN_TESTS.test(file) && roomOf(file) !== 'examples' && !mayName.test(file))
    .flatMap((file) => [...readFileSync(path.join(ROOT, file), 'utf8').matchAll(literal)].map(([text]) => `${file}: ${text}`));
  // A notebook runs any framework's code beside JupyterLab, but not the training library.
  expect(named).toEqual(["client/notebook/notebook-job.ts: framework', 'none'"]);
  expect(FRAMEWORK_NAMES.length).toBeGreaterThan(5);
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
