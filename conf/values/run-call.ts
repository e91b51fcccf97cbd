/* JSON files with which `run` sends a function call to the tasks of its job and receives the result. */

/** Name of the input data folder with the call. */
export const CALL_DATA = 'tony-call';
/** File in the data folder: `{ module, export, args }`. `module` is a path relative to the source folder. */
export const CALL_FILE = 'call.json';
/**
 * File in the output folder, written atomically by the chief: `{ version, value }`. `value` is missing if the function returned undefined.
 */
export const RESULT_FILE = 'result.json';
