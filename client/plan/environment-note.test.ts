import { expect, test } from 'vitest';
import { parseJob } from '../../conf/resolve/load-job.ts';
import { environmentNotes } from './environment-note.ts';

const notes = (text: string) =>
  environmentNotes(parseJob(`name: a\ncommand: node a.ts\n${text}`, { file: 'job.yaml', folder: '/nowhere' }));

test('notes name each place that sets PATH, and no other variable', () => {
  expect(notes('env: {PATH_TO: x}\nroles: {worker: {env: {A: b}}}')).toEqual([]);
  expect(notes('env: {PATH: /opt/bin}\nroles: {worker: {}, evaluator: {env: {PATH: /usr/bin}}}')).toEqual([
    'env and roles.evaluator.env replace the whole PATH. The shell finds commands such as node only in the folders on the new PATH.',
  ]);
});
