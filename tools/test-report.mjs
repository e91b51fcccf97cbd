import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/**
 * A reporter of Vitest that writes the counts and the failures of a run to the file `TONY_TEST_REPORT`. Unlike Vitest's own JSON, it
 * contains the errors that belong to no test, and the message of a test that took too long.
 */
// biome-ignore lint/style/noDefaultExport: required by vitest
export default class TestReport {
  /**
   * @param {readonly import('vitest/node').TestModule[]} modules
   * @param {readonly import('vitest').SerializedError[]} errors errors outside tests: unhandled rejections, workers that ended
   */
  async onTestRunEnd(modules, errors) {
    const report = { passed: 0, failed: 0, skipped: 0, failures: /** @type {string[]} */ ([]) };
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state, errors: ofTest = [] } = test.result();
        report[state === 'pending' ? 'skipped' : state] += 1;
        if (state === 'failed') {
          report.failures.push([`${module.relativeModuleId}: ${test.fullName}`, ...ofTest.map(described)].join('\n'));
        }
      }
      const outside = [module, ...module.children.allSuites()].flatMap((each) => each.errors());
      report.failures.push(...outside.map((error) => `${module.relativeModuleId}\n${described(error)}`));
    }
    for (const error of errors) {
      const place = typeof error.VITEST_TEST_PATH === 'string' ? path.relative(process.cwd(), error.VITEST_TEST_PATH) : 'outside tests';
      report.failures.push([`${place}: ${error.VITEST_TEST_NAME ?? error.type ?? 'unhandled error'}`, described(error)].join('\n'));
    }
    report.failed = report.failures.length;
    await writeFile(process.env.TONY_TEST_REPORT ?? '', JSON.stringify(report));
  }
}

/**
 * The message, then the stack without the first line, which does not always contain the message.
 * @param {import('vitest').SerializedError} error
 */
function described({ name, message, stack = '' }) {
  return [`${name ?? 'Error'}: ${message}`, ...stack.split('\n').filter((line) => /^\s+at /.test(line))].join('\n');
}
