export type ProgressWriter = (line: string) => void;

/** Returns a function that reports progress lines. Each line begins with the time in seconds since `withElapsedTime` was called. */
export function withElapsedTime(progress: ProgressWriter): ProgressWriter {
  const started = performance.now();
  return (line) => progress(`[${((performance.now() - started) / 1000).toFixed(1).padStart(5)} s] ${line}`);
}
