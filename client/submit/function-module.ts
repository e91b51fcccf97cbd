import { Script } from 'node:vm';
import { messageOf, TonyError } from '../../platform/errors.ts';

/** The export name of the function. */
export const FUNCTION_EXPORT = 'run';

const RULE = 'run() sends only the text of the function: it may use its arguments, globals, and modules that it imports itself';

/**
 * Returns a module that exports a function by its source text. If the function uses a name of its surrounding code, the task fails with a
 * ReferenceError that explains the rule.
 *
 * @param source the result of `function.toString()`
 * @throws TonyError FUNCTION_INVALID
 */
export function functionModule(source: string): string {
  const expression = `(${source}\n)`;
  // The text of a shorthand method, such as `train(cluster) { ... }`, is valid only within an object.
  const method = `Object.values({${source}\n})[0]`;
  const error = syntaxError(expression);
  if (error !== null && syntaxError(method) !== null) {
    const [line = ''] = source.split('\n');
    throw new TonyError('FUNCTION_INVALID', `Cannot send the function as source text (${line.slice(0, 60)}): ${messageOf(error)}.`);
  }
  // TypeScript compilers wrap nested functions in `__name` to keep their names.
  return `const __name = (target) => target;
const called = ${error === null ? expression : method};
export async function ${FUNCTION_EXPORT}(...args) {
  try {
    return await called(...args);
  } catch (error) {
    throw error instanceof ReferenceError ? new ReferenceError(\`\${error.message}. ${RULE}.\`, { cause: error }) : error;
  }
}
`;
}

function syntaxError(expression: string): unknown {
  try {
    new Script(`'use strict'; ${expression};`);
    return null;
  } catch (error) {
    return error;
  }
}
