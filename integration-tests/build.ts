/** Runs once before all integration tests of one `vitest` run: the tests use the built package. */
import { buildAll } from '../tools/build.mjs';

export async function setup(): Promise<void> {
  // `npm run matrix` starts these tests many times, and has built the package once.
  if (process.env.TONY_MATRIX === undefined) {
    await buildAll({ types: false });
  }
}
