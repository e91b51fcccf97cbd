import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SendWindow } from './ring.ts';
import { Exchange, planAllReduce, planBroadcast, type Wire } from './ring-exchange.ts';
import { createPlainVector, createVector, type Lane, PIECE_BYTES, type RingVector } from './ring-vector.ts';

/** Runs a ring in memory and delivers the sent bytes in chunks of the given size. */
function runRing(
  vectors: RingVector[],
  plans: ReturnType<typeof planAllReduce>[],
  chunk: () => number,
  pick: (ready: number[]) => number,
  wire: Wire = 'float32',
): void {
  const size = vectors.length;
  const queues: Uint8Array[][] = vectors.map(() => []);
  const exchanges = vectors.map((vector, rank) => {
    const plan = plans[rank] as ReturnType<typeof planAllReduce>;
    const queue = queues[(rank + 1) % size] as Uint8Array[];
    const lane = vector[wire] as Lane;
    // The queue stores references, as a socket does: changing the bytes before delivery would corrupt the sums.
    const sendWindow = new SendWindow((bytes) => queue.push(bytes), plan.steps.length === 0 ? Number.POSITIVE_INFINITY : undefined);
    if (plan.first !== null && size > 1) {
      lane.encode(plan.first.from, plan.first.to);
      sendWindow.send(lane.image.subarray(plan.first.from * lane.width, plan.first.to * lane.width));
    }
    return new Exchange(lane, plan, sendWindow.send, sendWindow.received);
  });
  for (;;) {
    const ready = exchanges.flatMap((exchange, rank) => (!exchange.complete && (queues[rank] as Uint8Array[]).length > 0 ? [rank] : []));
    if (ready.length === 0) {
      break;
    }
    const rank = ready[pick(ready) % ready.length] as number;
    const queue = queues[rank] as Uint8Array[];
    const head = queue[0] as Uint8Array;
    const destination = (exchanges[rank] as Exchange).destination();
    const count = Math.min(chunk(), head.length, destination.length);
    destination.set(head.subarray(0, count));
    if (count === head.length) {
      queue.shift();
    } else {
      queue[0] = head.subarray(count);
    }
    if (count > 0) {
      (exchanges[rank] as Exchange).received(count);
    }
  }
  expect(exchanges.every((exchange) => exchange.complete)).toBe(true);
}

test('every rank gets the same sum for any length, number of ranks and division into chunks', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5 }),
      fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 200_000 })),
      fc.constantFrom('sum' as const, 'mean' as const),
      fc.infiniteStream(fc.integer({ min: 1, max: 300_000 })),
      fc.infiniteStream(fc.nat(1000)),
      fc.boolean(),
      (size, length, operation, chunks, picks, simd) => {
        const vectors = Array.from({ length: size }, (_, rank) => {
          const vector = simd ? createVector(length) : createPlainVector(length);
          // Integers have exact float32 sums in any order.
          vector.numbers.forEach((_, index) => {
            vector.numbers[index] = ((index * 7 + rank * 13) % 1000) - 500;
          });
          return vector;
        });
        const expected = new Float32Array(length);
        for (const vector of vectors) {
          vector.numbers.forEach((value, index) => {
            expected[index] = (expected[index] as number) + value;
          });
        }
        if (operation === 'mean' && size > 1) {
          expected.forEach((value, index) => {
            expected[index] = value * (1 / size);
          });
        }
        runRing(
          vectors,
          vectors.map((_, rank) => planAllReduce(rank, size, length, operation)),
          () => chunks.next().value as number,
          () => picks.next().value as number,
        );
        for (const vector of vectors) {
          expect(Buffer.compare(vector.float32.image, new Uint8Array(expected.buffer))).toBe(0);
        }
      },
    ),
    { numRuns: 25 },
  );
});

test('a broadcast copies the numbers of rank 0 to every rank', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 5 }),
      fc.integer({ min: 0, max: 100_000 }),
      fc.infiniteStream(fc.integer({ min: 1, max: 100_000 })),
      (size, length, chunks) => {
        const vectors = Array.from({ length: size }, (_, rank) => {
          const vector = createVector(length);
          vector.numbers.fill(rank + 1);
          return vector;
        });
        runRing(
          vectors,
          vectors.map((_, rank) => planBroadcast(rank, size, length)),
          () => chunks.next().value as number,
          () => 0,
        );
        for (const vector of vectors) {
          expect(vector.numbers.every((value) => value === 1)).toBe(true);
        }
      },
    ),
    { numRuns: 10 },
  );
});

test('SIMD and plain addition give identical bits', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 300 }),
      fc.integer({ min: 0, max: 200 }),
      fc.array(fc.float({ noNaN: true }), { minLength: 200, maxLength: 200 }),
      (at, count, values) => {
        const [simd, plain] = [createVector(600), createPlainVector(600)];
        for (const vector of [simd, plain]) {
          new Float32Array(vector.numbers.buffer, 0, PIECE_BYTES / 4).set(values);
          vector.numbers.forEach((_, index) => {
            vector.numbers[index] = Math.fround(index / 3);
          });
          vector.float32.add(at, count);
        }
        expect(Buffer.compare(simd.float32.image, plain.float32.image)).toBe(0);
      },
    ),
  );
});

test('with float16, all ranks get identical bits, close to the exact sum', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 2, max: 5 }),
      fc.oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 300_000 })),
      fc.constantFrom('sum' as const, 'mean' as const),
      fc.infiniteStream(fc.integer({ min: 1, max: 300_000 })),
      fc.infiniteStream(fc.nat(1000)),
      fc.boolean(),
      (size, length, operation, chunks, picks, simd) => {
        const vectors = Array.from({ length: size }, (_, rank) => {
          const vector = simd ? createVector(length, true) : createPlainVector(length, true);
          vector.numbers.forEach((_, index) => {
            vector.numbers[index] = Math.sin(index * 0.7 + rank) * 10 ** ((index % 7) - 4);
          });
          return vector;
        });
        const sums = Float64Array.from({ length }, (_, index) => vectors.reduce((sum, { numbers }) => sum + (numbers[index] as number), 0));
        const magnitudes = Float64Array.from({ length }, (_, index) =>
          vectors.reduce((sum, { numbers }) => sum + Math.abs(numbers[index] as number), 0),
        );
        runRing(
          vectors,
          vectors.map((_, rank) => planAllReduce(rank, size, length, operation)),
          () => chunks.next().value as number,
          () => picks.next().value as number,
          'float16',
        );
        const [first] = vectors as [RingVector];
        for (const vector of vectors) {
          expect(Buffer.compare(vector.float32.image, first.float32.image)).toBe(0);
        }
        const factor = operation === 'mean' ? 1 / size : 1;
        // Each of the `size` roundings adds an error of at most half a unit in the last place, or half of the smallest float16.
        const isNear = first.numbers.every((value, index) => {
          const tolerance = size * ((magnitudes[index] as number) * 2 ** -11 + 2 ** -25) + 1e-7;
          return Math.abs(value - (sums[index] as number) * factor) <= tolerance;
        });
        expect(isNear).toBe(true);
      },
    ),
    { numRuns: 25 },
  );
});
