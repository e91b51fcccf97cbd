import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Test files on clusters that run for 40 s or more, with their approximate durations in CI (s). Only the order of the files depends on these numbers:
 * a long file that starts last keeps one worker busy while the other workers are idle.
 */
const SECONDS: Readonly<Record<string, number>> = {
  'yarn-bad-days': 290,
  documents: 210,
  feed: 190,
  'training-bad-days': 180,
  frameworks: 155,
  summaries: 125,
  roads: 125,
  look: 120,
  'quota-bypass': 105,
  'long-jobs': 100,
  tls: 95,
  compatibility: 80,
  elastic: 80,
  staging: 75,
  checkpoints: 75,
  'high-availability': 65,
  predict: 65,
  kerberos: 60,
  preemption: 55,
  following: 55,
  'quota-bypass-kerberos': 45,
  'tracking-url': 45,
  tensorboard: 45,
  'terminal-cluster': 45,
  'capacity-scheduler': 45,
  'submit-plan': 40,
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
