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
          testTimeout: 20_000,
          // Some build what they look at first.
          hookTimeout: 60_000,
          // A condition that is awaited may take its time on a busy machine.
          expect: { poll: { timeout: 10_000 } },
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
