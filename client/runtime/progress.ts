export type Progress = (line: string) => void;

/** Returns a function that reports progress lines, each prefixed with the seconds since this call. */
export function withElapsedTime(progress: Progress): Progress {
  const started = performance.now();
  return (line) => progress(`[${((performance.now() - started) / 1000).toFixed(1).padStart(5)} s] ${line}`);
}
