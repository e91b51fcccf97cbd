import { expect, test } from 'vitest';
import { moduleOf } from './run-source.ts';

async function load(source: string): Promise<(...args: unknown[]) => Promise<unknown>> {
  const text = await moduleOf(source);
  const module = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(text)}`)) as {
    run: (...args: unknown[]) => Promise<unknown>;
  };
  return module.run;
}

test('a method in its short form runs from its text', async () => {
  const object = {
    async train(cluster: { rank: number }) {
      return cluster.rank + 1;
    },
  };
  expect(await (await load(object.train.toString()))({ rank: 4 })).toBe(5);
  await expect(moduleOf('train( {')).rejects.toMatchObject({ code: 'FUNCTION_INVALID' });
  await expect(moduleOf('train() {}, other() {}')).rejects.toMatchObject({ code: 'FUNCTION_INVALID' });
});

test('a function runs from its text', async () => {
  const run = await load(
    (async (cluster: { rank: number }, { rate, layers: [first = 3, ...rest] }: { rate: number; layers: number[] }) => {
      function square(value: number) {
        return value * value;
      }
      class Sum {
        total = 0;
        add(value: number) {
          this.total += value;
          return this;
        }
      }
      const sum = new Sum();
      outer: for (const value of rest) {
        for (let i = 0; i < 2; i++) if (value > 5) continue outer;
        sum.add(square(value));
      }
      try {
        JSON.parse('{');
      } catch (error) {
        return { rank: cluster.rank, rate, first, total: sum.total, error: (error as Error).name, pi: Math.PI, url: new URL('a:b').href };
      }
      return null;
    }).toString(),
  );
  expect(await run({ rank: 2 }, { rate: 0.5, layers: [undefined, 2, 3, 9] })).toEqual({
    rank: 2,
    rate: 0.5,
    first: 3,
    total: 13,
    error: 'SyntaxError',
    pi: Math.PI,
    url: 'a:b',
  });
  expect(
    await (
      await load(
        'async function train() { const { basename } = await import("node:path"); return [basename("/a/b"), arguments.length, typeof train]; }',
      )
    )(1, 2),
  ).toEqual(['b', 2, 'function']);
  // The output of compilers.
  expect(await (await load('async () => { const double = /* @__PURE__ */ __name((x) => 2 * x, "double"); return double(2); }'))()).toBe(4);
  expect(await (await load('async (x) => x // a comment'))(5)).toBe(5);
});

test.each([
  ['async (cluster) => rate * cluster.rank', 'rate'],
  ['async () => { helper(); tf.tidy(() => other); }', 'helper, tf, other'],
  ['async ({ a = b }, [c = d]) => { let { [e]: f } = a; return f; }', 'b, d, e'],
  ['async () => { { let inside = 1; } return inside; }', 'inside'],
  ['async () => { for (const i of [1]); return i; }', 'i'],
  ['async () => { try {} catch (error) {} return error; }', 'error'],
  ['async () => { total += 1; [x.y, z] = [1, 2]; }', 'total, x, z'],
  ['async () => ({ shorthand })', 'shorthand'],
  ['async () => { class A extends B { [c] = d; static { e; } } }', 'B, c, d, e'],
  ['async () => { const f = (g) => g; return g; }', 'g'],
  ['async () => require("x")', 'require'],
  ['async () => __dirname', '__dirname'],
  ['async () => import.meta.url', 'import.meta'],
  ['async () => (await import("./model.ts")).build()', 'import("./model.ts")'],
  ['async () => this.rate', 'this'],
  [`async () => \`\${text}\``, 'text'],
  ['async () => tag`x`', 'tag'],
  ['async () => a?.b.c?.[d]', 'a, d'],
])('%s is refused', async (source, names) => {
  await expect(moduleOf(source)).rejects.toMatchObject({
    code: 'FUNCTION_INVALID',
    message: `the function uses ${names} from outside of itself, and would not find that where it runs`,
  });
});

test.each([
  ['async () => { var a = 1; { var b = a; } return a + b + c; function c() {} }'],
  ['async () => { const o = { a: 1, get b() { return this.a; }, c() { return super.toString(); } }; return o.b; }'],
  ['async () => { loop: while (true) { break loop; } switch (1) { case 1: let x = 2; return x; } }'],
  ['async () => { const f = function g(n) { return n && g(n - 1) + arguments.length + new.target; }; return f(2); }'],
  ['async () => { for (var i = 0, n = 3; i < n; i++); for (const k in {}) k; return i; }'],
  ['async function* () { yield* [1]; for await (const x of []) yield x; }'],
  ['async (a, b = a, { c, ...d } = b) => [a, b, c, d]'],
  ['async () => [process.env, Buffer, console, setTimeout, fetch, structuredClone, undefined, NaN, globalThis]'],
])('%s stands by itself', async (source) => {
  await expect(moduleOf(source)).resolves.toContain(source);
});

test.each([['function () { [native code] }'], ['class A {}; 1'], ['1) + (2'], ['async () => 1); evil((1']])(
  '%s is no function that could be sent',
  async (source) => {
    await expect(moduleOf(source)).rejects.toMatchObject({ code: 'FUNCTION_INVALID' });
  },
);
