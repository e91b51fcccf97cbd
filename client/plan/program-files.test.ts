import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { programNotes, refuseMissingPrograms } from './program-files.ts';

const file = (path: string) => ({ type: 'file', path, size: 1, executable: false }) as const;
const SOURCE = { entries: [file('a.ts'), file('train.py'), file('src/main.py'), { type: 'link', path: 'linked', target: 'src' } as const] };

function jobWith(roles: Readonly<Record<string, string>>, more = '') {
  const lines = Object.entries(roles).map(([name, command]) => `  ${name}: {command: ${JSON.stringify(command)}}`);
  const text = `name: a\nframework: none\nfiles: {lib.py: /x/lib.py}\n${more}\nroles:\n${lines.join('\n')}\n`;
  return parseJob(text, { file: 'job.yaml', folder: '/nowhere' });
}

const notes = (command: string) => programNotes(jobWith({ worker: command }), SOURCE);
const refuse =
  (command: string, more = '') =>
  () =>
    refuseMissingPrograms(jobWith({ worker: command }, more), SOURCE);

const MISSPELT = 'The command of role worker runs trian.py, but the job contains no such file; did you mean train.py?';
const ADVICE = 'Correct the name, or set `source` to the folder that contains the file.';

const PRESENT = ['python3 ./src/main.py', 'bash train.py', 'python3 lib.py', 'node a.ts'];
const UNKNOWN = ['python3 -m pkg.main', 'cd x && python3 y.py', 'node $HOME/a.ts', 'python3 /opt/t.py', 'node --eval x.y', 'sleep 5.0'];

test('a note names each program file that the job does not contain', () => {
  expect(notes('EPOCHS=3 python3 -u trian.py --rate 1')).toEqual([MISSPELT]);
  expect(programNotes(jobWith({ worker: 'node a.ts', evaluator: 'node a.ts' }), null)).toEqual([
    `The command of roles worker and evaluator runs a.ts, but the job contains no such file. ${ADVICE}`,
  ]);
  expect([...PRESENT, ...UNKNOWN].flatMap(notes)).toEqual([]);
});

test.each(['python3 trian.py', '/opt/bin/python3.11 -u ./trian.py --rate 1'])(
  'a job that only runs a missing file is refused: %s',
  (command) => {
    expect(refuse(command)).toThrow(expect.objectContaining({ code: 'SOURCE_NOT_FOUND', message: MISSPELT, hint: ADVICE }));
  },
);

test('the refusal lists each missing file', () => {
  expect(() => refuseMissingPrograms(jobWith({ worker: 'node b.ts', evaluator: 'node c.mjs' }), null)).toThrow(
    'The command of role worker runs b.ts, but the job contains no such file.\n' +
      'The command of role evaluator runs c.mjs, but the job contains no such file.',
  );
});

test.each([
  ...PRESENT,
  ...UNKNOWN,
  'python3 trian.py || python3 train.py',
  'python3 make.py > trian.py; python3 trian.py',
  'PYTHONPATH=x python3 trian.py',
  'bash setup.sh',
  'node server.prod',
  'python3 linked/main.py',
])('a job that may work is not refused: %s', (command) => {
  expect(refuse(command)).not.toThrow();
});

test('a job that sets NODE_OPTIONS is not refused, because Node.js may load a resolver', () => {
  expect(refuse('node trian.ts', 'env: {NODE_OPTIONS: --import ./resolver.mjs}')).not.toThrow();
});
