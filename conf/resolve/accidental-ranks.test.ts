import { expect, test } from 'vitest';
import { parseJob } from './load-job.ts';

function notesFor(text: string): string[] {
  const notes: string[] = [];
  parseJob(`name: x\nframework: none\ncommand: run\n${text}\n`, { file: 'job.yaml', folder: '/x', onNote: (line) => notes.push(line) });
  return notes;
}

test.each([
  ['beside worker', 'roles: {worker: {instances: 2}, eval: {}}', 'Role eval trains with rank 2.'],
  ['beside chief', 'roles: {chief: {}, other: {instances: 3}}', 'Role other trains with ranks 1-3.'],
  ['with a name that does not train', 'roles: {trainer: {}, tester: {instances: 2}}', 'Role tester trains with ranks 1-2.'],
])('a note names a role that joins the gang by default %s', (_, text, beginning) => {
  const [note, ...more] = notesFor(text);
  expect(more).toEqual([]);
  expect(note).toBe(`${beginning} Write kind: independent if its program does not train with the others, or kind: gang if it does.`);
});

test.each([
  ['roles with a kind', 'roles: {worker: {}, eval: {kind: independent}, test: {kind: gang}}'],
  ['roles that train by their names', 'roles: {chief: {}, worker: {}, evaluator: {}}'],
  ['the role that the job names as its chief', 'chief: head\nroles: {head: {}, worker: {}}'],
  ['roles with names of their own', 'roles: {actor: {}, learner: {}}'],
])('no note about %s', (_, text) => {
  expect(notesFor(text)).toEqual([]);
});
