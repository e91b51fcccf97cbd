/** Returns a handler for a rejected file operation: it returns `answer` if the file does not exist, and throws any other error. */
export function ifMissing<T>(answer: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
      return answer;
    }
    throw error;
  };
}
