import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { TonyError } from '../conf/errors.ts';
import { encodeJsonValue } from '../conf/json-value.ts';
import { CALL_DATA, CALL_FILE, RESULT_FILE } from '../conf/run-call.ts';
import { joinUri } from '../storage/uri.ts';
import { join } from './join.ts';
import { readTask } from './task.ts';

/** A program that has called its function may keep the process alive by what it has left open; not for longer than this. */
const LEFTOVERS_MS = 5000;

const schema = z.object({ module: z.string().min(1), export: z.string().min(1), args: z.array(z.unknown()) });

/**
 * What the tasks of a job run that `run()` of the library `tony-ts` has submitted: calls the function with this task's cluster. What it returns on the
 * chief becomes the job's result; what it throws, anywhere, is the end of that task.
 */
export async function runCall(): Promise<void> {
  const cluster = await join();
  const call = schema.parse(JSON.parse((await cluster.read(CALL_DATA, CALL_FILE)).toString()));
  const module = (await import(pathToFileURL(resolve(call.module)).href)) as Readonly<Record<string, unknown>>;
  const called = module[call.export];
  if (typeof called !== 'function') {
    const names = Object.keys(module).join(', ') || 'nothing';
    throw new TonyError('FUNCTION_INVALID', `${call.module} exports no function ${call.export} (it exports: ${names})`);
  }
  const value: unknown = await called(cluster, ...call.args);
  // A task of a role without ranks is the first of a world of its own, and not the chief.
  if (readTask()?.rank === 0 && cluster.outputDir !== null) {
    const result = {
      version: 1,
      ...(value !== undefined && { value: JSON.parse(encodeJsonValue(value, 'the returned value', 'FUNCTION_INVALID')) as unknown }),
    };
    await cluster.storage.write(joinUri(cluster.outputDir, RESULT_FILE), Buffer.from(JSON.stringify(result)));
  }
  await cluster.end();
  setTimeout(() => process.exit(), LEFTOVERS_MS).unref();
}
