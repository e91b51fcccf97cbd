import { TonyError } from '../../platform/errors.ts';
import { runTool, ToolFailure } from './tool.ts';

/** Returns the C++ compiler: the value of CXX, or g++. */
export function compilerCommand(environment: NodeJS.ProcessEnv = process.env): string {
  return environment.CXX || 'g++';
}

/**
 * Verifies that the programs for a build are installed.
 * @throws TonyError RUNTIME_TOOL_NOT_FOUND with the names of all missing programs
 */
export async function checkPrerequisites(folder: string): Promise<void> {
  const compiler = compilerCommand();
  const wanted = [
    { command: 'npm', args: ['--version'], missing: 'npm (comes with Node)' },
    { command: 'python3', args: ['-m', 'pip', '--version'], missing: 'python3 with pip (Debian: python3-pip; RedHat: python3-pip)' },
    { command: compiler, args: ['--version'], missing: `the C++ compiler ${compiler} (Debian: g++; RedHat: gcc-c++)` },
  ];
  const missing = await Promise.all(
    wanted.map(async (tool) => {
      try {
        await runTool({ command: tool.command, args: tool.args, cwd: folder, timeoutMs: 60_000 });
        return [];
      } catch (error) {
        if (error instanceof ToolFailure || (error instanceof TonyError && error.code === 'RUNTIME_TOOL_NOT_FOUND')) {
          return [tool.missing];
        }
        throw error;
      }
    }),
  );
  const names = missing.flat();
  if (names.length > 0) {
    throw new TonyError('RUNTIME_TOOL_NOT_FOUND', `cannot build a runtime, because this machine lacks ${names.join(' and ')}`);
  }
}
