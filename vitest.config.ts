import { availableParallelism } from 'node:os';
import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';
import { LongestFirst } from './integration-tests/longest-first.ts';
import { HANGS_MS } from './integration-tests/until.ts';

/** Integration tests that need only this machine. */
const LOCAL = ['integration-tests/{local,executor,browser}/**/*.test.ts'];
/** Integration tests that start a Hadoop cluster of their own. */
const OWN_CLUSTER = ['integration-tests/own-cluster/**/*.test.ts'];
/** Integration tests that `npm test` leaves out, because they take minutes or download a lot. */
const LONG = ['integration-tests/long/**/*.test.ts'];
const CLUSTER_SETUP = ['integration-tests/build.ts', 'integration-tests/setup.ts'];
const UNIT = 'integration-tests/layers.test.ts';

/** A project of integration tests, which run in `maxWorkers` workers. tools/test.mjs runs projects in parallel. */
function integration(
  name: string,
  order: number,
  maxWorkers: number,
  files: { include?: string[]; exclude?: string[]; globalSetup: string[]; isolate?: boolean },
): TestProjectInlineConfiguration {
  const { include = ['integration-tests/**/*.test.ts'], exclude = [], globalSetup, isolate = true } = files;
  return {
    test: {
      name,
      include,
      exclude: [...exclude, UNIT],
      globalSetup,
      isolate,
      setupFiles: ['tools/property-seed.ts'],
      // These limits end tests that hang. The start of a cluster takes 15 s of processor time on an idle machine, but minutes on a busy one.
      testTimeout: 600_000,
      hookTimeout: 600_000,
      maxWorkers,
      sequence: { groupOrder: order },
      expect: { poll: { timeout: HANGS_MS } },
    },
  };
}

// Vitest reads the configuration from a default export; this is the only default export.
// biome-ignore lint/style/noDefaultExport: required by vitest
export default defineConfig({
  test: {
    // Many tests wait for other processes; with one test file at a time, even a small machine would be idle.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          // The files of a worker share their modules, because importing TensorFlow.js for each file takes longer than most tests.
          isolate: false,
          setupFiles: ['tools/property-seed.ts'],
          include: [
            '{platform,protos,conf,hadoop,storage,contract,training,web,task-executor,application-master,client,tools}/**/*.test.ts',
            UNIT,
          ],
          // Ends tests that hang; it does not check speed, because a busy machine is slow. Some tests build their input first.
          testTimeout: 600_000,
          hookTimeout: 600_000,
          expect: { poll: { timeout: HANGS_MS } },
        },
      },
      // The test files of a worker share a cluster.
      integration('cluster', 1, 2, { exclude: [...LOCAL, ...OWN_CLUSTER, ...LONG], globalSetup: CLUSTER_SETUP }),
      integration('own-cluster', 2, 1, { include: OWN_CLUSTER, globalSetup: CLUSTER_SETUP }),
      // Its files share their modules, as those of the unit tests.
      integration('local', 3, 1, { include: LOCAL, globalSetup: ['integration-tests/build.ts'], isolate: false }),
      integration('long', 4, 1, { include: LONG, globalSetup: CLUSTER_SETUP }),
    ],
  },
});
