/** Kills and resumes whole programs. `npm run equality -- --lane resume` does so with thousands of generated programs. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { resumePrograms } from './testing/resume/program.ts';
import { differenceAfterKills } from './testing/resume/run.ts';

test('generated programs that are killed and resumed end with the same bits as undisturbed programs', async () => {
  await fc.assert(
    fc.asyncProperty(resumePrograms, async (program) => {
      expect(await differenceAfterKills(program)).toBeNull();
    }),
    { numRuns: 20 },
  );
});
