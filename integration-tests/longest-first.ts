import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Test files on clusters that run for 40 s or more, with their approximate durations in CI (s). Only the order of the files depends on these numbers:
 * a long file that starts last keeps one worker busy while the other workers are idle.
 */
const SECONDS: Readonly<Record<string, number>> = {
  frameworks: 300,
  'yarn-bad-days': 280,
  documents: 240,
  'training-bad-days': 215,
  compatibility: 190,
  'quota-bypass': 150,
  feed: 135,
  tls: 135,
  checkpoints: 130,
  roads: 130,
  'long-jobs': 115,
  elastic: 105,
  look: 105,
  following: 100,
  'python-packages': 100,
  staging: 95,
  'high-availability': 90,
  'run-function': 80,
  summaries: 80,
  preemption: 65,
  'capacity-scheduler': 60,
  predict: 60,
  'terminal-cluster': 60,
  notebook: 55,
  'parameter-server': 50,
  doctor: 45,
  kerberos: 45,
  tensorboard: 45,
  'submit-failures': 40,
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
