import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Test files on the workers' clusters that run for 40 s or more, with their approximate durations in CI (s). Only the order of the files
 * depends on these numbers: a long file that starts last keeps one worker busy while the other worker is idle.
 */
const SECONDS: Readonly<Record<string, number>> = {
  'yarn-bad-days': 225,
  frameworks: 210,
  documents: 210,
  'training-bad-days': 135,
  feed: 130,
  'quota-bypass': 105,
  checkpoints: 100,
  look: 90,
  following: 65,
  elastic: 65,
  summaries: 65,
  staging: 55,
  'python-packages': 50,
  notebook: 50,
  tensorboard: 50,
  'capacity-scheduler': 45,
  preemption: 45,
  predict: 40,
  'terminal-cluster': 40,
  'parameter-server': 40,
};

/** Starts the longest tests on clusters first. All other files keep Vitest's order. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => secondsOf(b) - secondsOf(a));
  }
}

function secondsOf({ moduleId, project }: TestSpecification): number {
  if (project.name !== 'cluster') {
    return 0;
  }
  const name = moduleId.slice(moduleId.lastIndexOf('/') + 1).replace(/\.test\.ts$/, '');
  return SECONDS[name] ?? 0;
}
