import { expect, test } from 'vitest';
import { parseJob } from '../../conf/load-job.ts';
import { environmentNotes } from './environment-note.ts';

const notes = (text: string) =>
  environmentNotes(parseJob(`name: a\ncommand: node a.ts\n${text}`, { file: 'job.yaml', folder: '/nowhere' }));

test('a PATH of the job or of a role is named; other variables are not', () => {
  expect(notes('env: {PATH_TO: x}\nroles: {worker: {env: {A: b}}}')).toEqual([]);
  expect(notes('env: {PATH: /opt/bin}\nroles: {worker: {}, evaluator: {env: {PATH: /usr/bin}}}')).toEqual([
    'env and roles.evaluator.env replaces PATH completely: commands such as node are found only in the folders that it lists.',
  ]);
});
