/** How a function call reaches the tasks of its job, and how its result returns. All data is JSON. */

/** The name of the job's data folder that contains the call. */
export const CALL_DATA = 'tony-call';
/** A file in that folder: `{ module, export, args }`; the module is relative to the source folder. */
export const CALL_FILE = 'call.json';
/**
 * A file in the job's output folder: `{ version, value }`, which the chief writes atomically; without `value` when the function returned
 * nothing.
 */
export const RESULT_FILE = 'result.json';
