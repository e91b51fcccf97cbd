/** Runs once before all integration tests of one `vitest` run: the tests use the built package. */
import { buildAll } from '../tools/build.mjs';

export async function setup(): Promise<void> {
  await buildAll({ types: false });
}
