/* The files through which `run` passes a function call to the tasks of its job, and receives the result. They contain JSON. */

/** The name of the data folder that contains the call. */
export const CALL_DATA = 'tony-call';
/** A file in the data folder: `{ module, export, args }`; the path of the module is relative to the source folder. */
export const CALL_FILE = 'call.json';
/**
 * A file in the job's output folder, which the chief writes atomically: `{ version, value }`; without `value` if the function returned
 * undefined.
 */
export const RESULT_FILE = 'result.json';
