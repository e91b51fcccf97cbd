// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these tests use text that a shell must not change
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchCommand, launchEnvironment, literal } from './launch-script.ts';

let logs: string;
beforeAll(() => {
  logs = mkdtempSync(join(tmpdir(), 'launch-script-'));
});
afterAll(() => rmSync(logs, { recursive: true }));

/** Replaces text like the NodeManager, in the same order. */
const expand = (text: string): string =>
  text
    .replaceAll('<LOG_DIR>', logs)
    .replaceAll('<CPS>', ':')
    .replaceAll('<ADD_OPENS>', '--add-opens=x')
    .replaceAll('{{', '$')
    .replaceAll('}}', '');

/** Runs a launch_container.sh in the NodeManager's format with the real bash. */
function launch(environment: Readonly<Record<string, string>>, command: string) {
  const exports = Object.entries(environment).map(([key, value]) => `export ${key}="${expand(value)}"\n`);
  const script = `#!/bin/bash\nset -o pipefail -e\n${exports.join('')}exec /bin/bash -c "${expand(command)}"\n`;
  // Pass the script through stdin: some scripts exceed the maximum length of an argument.
  return spawnSync('/bin/bash', ['-s'], { input: script, env: { PATH: '/usr/bin:/bin', HOME: '/home/x' } });
}

const pieces = fc.constantFrom(
  '{',
  '}',
  '{{',
  '}}',
  '{{{',
  '{{HOME}}',
  '"',
  '""',
  "'",
  '\\',
  '\\\\',
  '`',
  '`id`',
  '$',
  '$HOME',
  '${HOME}',
  '$(id)',
  '<CPS>',
  '<LOG_DIR>',
  '<ADD_OPENS>',
  '<',
  '>',
  '<<CPS>',
  '!',
  '!!',
  '#',
  ' ',
  '\n',
  '\t',
  '*',
  '~',
  '&',
  ';',
  '|',
  '(',
  ')',
  'é',
  '🙂',
  'a',
  '=',
  '%s',
  '\r',
  '-n',
);
const nasty = fc.oneof(
  fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join('')),
  fc.string({ unit: 'binary', maxLength: 30 }).filter((text) => !text.includes('\0')),
  fc.json({ maxDepth: 3 }),
);

describe('the launch script run by bash', () => {
  test('passes environment values unchanged', () => {
    fc.assert(
      fc.property(fc.array(nasty, { minLength: 1, maxLength: 12 }), (values) => {
        const environment = Object.fromEntries(values.map((value, index) => [`V_${index}`, value]));
        const names = Object.keys(environment)
          .map((name) => `"$${name}"`)
          .join(' ');
        const { stdout, stderr } = launch(launchEnvironment(environment), literal(`printf '%s\\0' ${names}`));
        expect(stderr.toString()).toBe('');
        expect(stdout.toString('utf8').split('\0').slice(0, -1)).toEqual(values);
      }),
      { numRuns: 50 },
    );
  });

  test('passes the words of a command unchanged', () => {
    fc.assert(
      fc.property(fc.array(nasty, { maxLength: 8 }), (words) => {
        const { status, stderr } = launch({}, launchCommand(['printf', '%s\\0', 'first', ...words], { stdout: 'out', stderr: 'err' }));
        expect([status, stderr.toString()]).toEqual([0, '']);
        expect(readFileSync(join(logs, 'out'), 'utf8').split('\0').slice(0, -1)).toEqual(['first', ...words]);
      }),
      { numRuns: 50 },
    );
  });

  test('writes output to the named files, and replaces itself with the program', () => {
    const program = ['/bin/sh', '-c', 'echo $$ $PPID; echo problem >&2; exit 3'];
    expect(launch({}, launchCommand(program, { stdout: 'out', stderr: 'err' })).status).toBe(3);
    expect(readFileSync(join(logs, 'err'), 'utf8')).toBe('problem\n');
    // `exec` has replaced both shells, so the program's parent is this process.
    expect(readFileSync(join(logs, 'out'), 'utf8').trim().split(' ')[1]).toBe(String(process.pid));
    launch({}, launchCommand(program, { stdout: 'both' }));
    expect(readFileSync(join(logs, 'both'), 'utf8')).toMatch(/^\d+ \d+\nproblem\n$/);
  });
});

test('leaves plain words unquoted', () => {
  expect(launchCommand(['runtime/bin/node', 'tony/task-executor.mjs'], { stdout: 'tony.log' })).toBe(
    'exec runtime/bin/node tony/task-executor.mjs 1><LOG_DIR>/tony.log 2>&1',
  );
});

test('rejects names and values that no shell can represent', () => {
  expect(() => launchEnvironment({ 'A-B': '1' })).toThrow('"A-B" is not a valid environment variable name');
  expect(() => launchEnvironment({ A: 'x\0y' })).toThrow('NUL');
  expect(() => launchCommand(['a'], { stdout: '../x' })).toThrow('plain file name');
});
