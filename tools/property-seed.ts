import fc from 'fast-check';

/*
 * `npm test` repeats the same examples in every run, so that it never fails by luck. `npm test -- long` runs the property tests with fresh
 * examples. fast-check prints the seed of an example that fails.
 */
if (process.env.TONY_TEST_SEED !== 'fresh') {
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: 1 });
}
