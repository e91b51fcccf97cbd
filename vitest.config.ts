import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

// Vitest reads the configuration from a default export; it is the only one.
// biome-ignore lint/style/noDefaultExport: required by vitest
export default defineConfig({
  test: {
    // Many tests wait for other processes, so that one at a time would leave even the smallest machine idle.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [
      {
        test: {
          name: 'unit',
          include: [
            '{protos,conf,hadoop,storage,training,web,task-executor,application-master,client,tools}/**/*.test.ts',
            'integration-tests/layers.test.ts',
          ],
          // It ends what hangs and judges no speed: a busy machine takes its time. Some build what they look at first.
          testTimeout: 60_000,
          hookTimeout: 60_000,
          expect: { poll: { timeout: 30_000 } },
        },
      },
      {
        test: {
          name: 'integration',
          include: ['integration-tests/**/*.test.ts'],
          exclude: ['integration-tests/layers.test.ts'],
          globalSetup: 'integration-tests/setup.ts',
          testTimeout: 180_000,
          hookTimeout: 180_000,
          fileParallelism: false,
          expect: { poll: { timeout: 30_000 } },
        },
      },
    ],
  },
});
