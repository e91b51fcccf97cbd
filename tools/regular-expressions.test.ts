import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { analyse } from 'scslre';
import { describe, expect, test } from 'vitest';
import { parseAst } from 'vitest/node';
import { isRecord } from '../platform/is-record.ts';
import { ROOT } from './install.mjs';

/*
 * Servers and clients apply regular expressions to texts of other users: pages, files, job files, logs. Backtracking can make a search take
 * quadratic or exponential time, so every regular expression of the product must take linear time for every input.
 */

const FOLDERS = [
  'platform',
  'protos',
  'conf',
  'hadoop',
  'storage',
  'contract',
  'training',
  'web',
  'task-executor',
  'application-master',
  'client',
];

/** Files that build regular expressions from texts, with the reason why their time is bounded. */
const BUILT: Readonly<Record<string, string>> = {
  'client/runtime/build-runtime.ts': 'fixed alternatives',
  'client/terminal/terminal.ts': 'two fixed alternatives',
  'conf/status/early-end.ts': 'a fixed prefix',
  'conf/values/role-name.ts': 'fixed parts',
  'hadoop/configuration/login/auth-to-local.ts': "the administrator's patterns, applied to user names",
  'task-executor/program/program.ts': 'fixed parts, applied to a few kB',
  'training/data/reading/glob.ts': "the job's own patterns, applied to file names",
};

interface Found {
  readonly file: string;
  readonly pattern: string;
  readonly flags: string;
}

/** Returns every literal regular expression in a source file, and whether the file builds others. */
function expressionsIn(file: string, text: string): { literals: Found[]; builds: boolean } {
  const literals: Found[] = [];
  let builds = false;
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) {
      node.forEach(visit);
    } else if (isRecord(node)) {
      if (isRecord(node.regex)) {
        literals.push({ file, pattern: String(node.regex.pattern), flags: String(node.regex.flags) });
      }
      if ((node.type === 'NewExpression' || node.type === 'CallExpression') && isRecord(node.callee) && node.callee.name === 'RegExp') {
        builds = true;
      }
      Object.values(node).forEach(visit);
    }
  };
  visit(parseAst(text, { lang: 'ts' }));
  return { literals, builds };
}

/** Returns why the time of a search may grow faster than its input, or null if it is linear. */
function problemOf({ pattern, flags }: Pick<Found, 'pattern' | 'flags'>): string | null {
  // The analysis does not follow back references.
  if (/\\[1-9]|\\k</.test(pattern)) {
    return 'has a back reference';
  }
  const [report] = analyse({ source: pattern, flags }, { reportTypes: { Move: true, Self: true, Trade: true } }).reports;
  return report === undefined ? null : `${report.exponential ? 'exponential' : 'polynomial'} time (${report.type})`;
}

describe('the check', () => {
  test.each([
    ['a nested repetition', '^(a+)+$'],
    ['adjacent repetitions of the same characters', '^\\s*(.*?)\\s*$'],
    ['a repetition without an anchor before a required end', '/+$'],
    ['an unanchored search for an end', '<[^>]*>'],
    ['a back reference', '<(script|style)[\\s\\S]*?</\\1>'],
  ])('refuses %s', (_, pattern) => {
    expect(problemOf({ pattern, flags: '' })).not.toBeNull();
  });

  test.each([['^\\d+(\\.\\d+)?$'], ['[^\\s,]+'], ['^([a-z]+):(.*)$']])('accepts %s', (pattern) => {
    expect(problemOf({ pattern, flags: '' })).toBeNull();
  });
});

test('every regular expression of the product takes linear time', () => {
  const listed = execFileSync(
    'git',
    ['ls-files', '--cached', '--others', '--exclude-standard', ...FOLDERS.map((each) => `${each}/**/*.ts`)],
    {
      cwd: ROOT,
      encoding: 'utf8',
    },
  );
  const files = listed.split('\n').filter((file) => /\.ts$/.test(file) && !/\.(test|fixture)\.ts$|\/testing\/|\.d\.ts$/.test(file));
  expect(files.length).toBeGreaterThan(500);
  const found = files.map((file) => ({ file, ...expressionsIn(file, readFileSync(path.join(ROOT, file), 'utf8')) }));
  expect(found.filter(({ builds }) => builds).map(({ file }) => file)).toEqual(Object.keys(BUILT));
  const problems = found.flatMap(({ literals }) =>
    literals.flatMap((each) => {
      const problem = problemOf(each);
      return problem === null ? [] : [`${each.file}: /${each.pattern}/${each.flags}: ${problem}`];
    }),
  );
  expect(problems).toEqual([]);
});
