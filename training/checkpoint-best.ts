import { z } from 'zod';

/** Which checkpoint an evaluator has found best. */
export interface BestCheckpoint {
  readonly step: number;
  readonly metric: string;
  readonly value: number;
  /** Whether less or more of the metric is better. */
  readonly mode: 'min' | 'max';
}

const bestSchema = z.object({
  step: z.number().int().nonnegative(),
  metric: z.string(),
  value: z.number(),
  mode: z.enum(['min', 'max']),
});

const heldSchema = z.object({ step: z.number().int().nonnegative() });

export function encodeBest({ step, metric, value, mode }: BestCheckpoint): Buffer {
  return Buffer.from(`${JSON.stringify({ step, metric, value, mode })}\n`);
}

/** null for what is no such file: it protects nothing then. */
export function parseBest(bytes: Uint8Array): BestCheckpoint | null {
  return parseJson(bestSchema, bytes);
}

/** What somebody is still reading. */
export function encodeHeld(step: number): Buffer {
  return Buffer.from(`${JSON.stringify({ step })}\n`);
}

export function parseHeld(bytes: Uint8Array): number | null {
  return parseJson(heldSchema, bytes)?.step ?? null;
}

function parseJson<T>(schema: z.ZodType<T>, bytes: Uint8Array): T | null {
  try {
    return schema.safeParse(JSON.parse(Buffer.from(bytes).toString('utf8'))).data ?? null;
  } catch {
    return null;
  }
}
