import { type ErrorCode, TonyError } from './errors.ts';

/** Returns an error handler. The handler returns `answer` if the error is a TonyError with this code, and rethrows all other errors. */
export function ifCode<T>(code: ErrorCode, answer: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof TonyError && error.code === code) {
      return answer;
    }
    throw error;
  };
}
