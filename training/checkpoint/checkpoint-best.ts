import { z } from 'zod';

/** The content of best.json: the best checkpoint, and the metric by which an evaluator chose it. */
export interface BestCheckpoint {
  readonly step: number;
  readonly metric: string;
  readonly value: number;
  /** Whether a lower or a higher value of the metric is better. */
  readonly mode: 'min' | 'max';
}

const bestSchema = z.object({
  step: z.number().int().nonnegative(),
  metric: z.string(),
  value: z.number(),
  mode: z.enum(['min', 'max']),
});

const heldSchema = z.object({ step: z.number().int().nonnegative() });

const endSchema = z.object({ applicationId: z.string() });

export function encodeBest({ step, metric, value, mode }: BestCheckpoint): Buffer {
  return Buffer.from(`${JSON.stringify({ step, metric, value, mode })}\n`);
}

/** Parses best.json. Returns null for an invalid file, which then protects no checkpoint from removal. */
export function parseBest(bytes: Uint8Array): BestCheckpoint | null {
  return parseJson(bestSchema, bytes);
}

/** Encodes a file that protects a checkpoint while a task reads it. */
export function encodeHeld(step: number): Buffer {
  return Buffer.from(`${JSON.stringify({ step })}\n`);
}

export function parseHeld(bytes: Uint8Array): number | null {
  return parseJson(heldSchema, bytes)?.step ?? null;
}

/** Encodes end.json, which states that the program of this application has ended. */
export function encodeEnd(applicationId: string): Buffer {
  return Buffer.from(`${JSON.stringify({ applicationId })}\n`);
}

export function parseEnd(bytes: Uint8Array): string | null {
  return parseJson(endSchema, bytes)?.applicationId ?? null;
}

function parseJson<T>(schema: z.ZodType<T>, bytes: Uint8Array): T | null {
  try {
    return schema.safeParse(JSON.parse(Buffer.from(bytes).toString('utf8'))).data ?? null;
  } catch {
    return null;
  }
}
