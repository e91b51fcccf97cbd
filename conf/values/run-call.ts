/* JSON files with which `run` sends a function call to the tasks of its job and receives the result. */

/** Name of the input folder that describes the call. */
export const CALL_DATA = 'tony-call';
/** File in the input folder, with the content `{ module, export, args }`. `module` is a path relative to the source folder. */
export const CALL_FILE = 'call.json';
/**
 * File in the output folder, which the chief writes atomically. Its content is `{ version, value }`. The `value` field is missing if the
 * function returned undefined.
 */
export const RESULT_FILE = 'result.json';
