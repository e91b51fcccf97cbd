import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Test files on the workers' clusters that run for 40 s or more, with their approximate durations in CI (s). Only the order of the files
 * depends on these numbers: a long file that starts last keeps one worker busy while the other worker is idle.
 */
const SECONDS: Readonly<Record<string, number>> = {
  frameworks: 240,
  'yarn-bad-days': 225,
  documents: 190,
  'training-bad-days': 130,
  'python-packages': 110,
  feed: 105,
  'quota-bypass': 90,
  following: 85,
  notebook: 80,
  look: 70,
  'terminal-cluster': 65,
  elastic: 65,
  'submit-failures': 60,
  summaries: 60,
  'run-function': 60,
  datasets: 60,
  'parameter-server': 55,
  'tracking-url': 55,
  tensorboard: 55,
  staging: 50,
  doctor: 45,
  predict: 45,
  'object-store': 45,
  checkpoints: 40,
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
