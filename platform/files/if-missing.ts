/** Returns an error handler for file operations. The handler returns `answer` if the file does not exist, and rethrows all other errors. */
export function ifMissing<T>(answer: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') {
      return answer;
    }
    throw error;
  };
}
