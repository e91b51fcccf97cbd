import { Script } from 'node:vm';
import { messageOf, TonyError } from '../../platform/errors.ts';

export const FUNCTION_EXPORT = 'run';

const RULE =
  'run() sends only the source text of the function, so the function can use only its arguments, globals, and modules that it imports itself';

/**
 * Returns the source text of a module that exports the function. If the function uses a variable from an enclosing scope, the task fails
 * with a ReferenceError that explains this restriction.
 * @param source the result of `function.toString()`
 * @throws TonyError FUNCTION_INVALID
 */
export function functionModule(source: string): string {
  const expression = `(${source}\n)`;
  // Wrap a shorthand method, such as `train(cluster) { ... }`, in an object. The text of such a method is valid only within an object.
  const method = `Object.values({${source}\n})[0]`;
  const error = syntaxError(expression);
  if (error !== null && syntaxError(method) !== null) {
    const [line = ''] = source.split('\n');
    throw new TonyError('FUNCTION_INVALID', `Cannot send the function as source text (${line.slice(0, 60)}): ${messageOf(error)}.`);
  }
  // Define `__name`. TypeScript compilers insert calls to `__name` to preserve the names of nested functions.
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
