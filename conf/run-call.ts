/** How a function that is to be called gets to the tasks of its job, and what it returns gets back. All of it is JSON. */

/** The job's data folder with the call. */
export const CALL_DATA = 'tony-call';
/** In that folder: `{ module, export, args }`; the module is relative to the source folder. */
export const CALL_FILE = 'call.json';
/** In the job's output folder: `{ version, value }`, written whole by the chief; without `value` when the function returned nothing. */
export const RESULT_FILE = 'result.json';
