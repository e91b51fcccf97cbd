import { expect, test } from 'vitest';
import { functionModule } from './run.ts';

/** Imports the module as a worker does, without the code around the function. */
async function load(source: string): Promise<(...args: unknown[]) => Promise<unknown>> {
  const text = functionModule(source);
  const module = (await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(text)}`)) as {
    run: (...args: unknown[]) => Promise<unknown>;
  };
  return module.run;
}

test('a function runs from its text, with its arguments and globals', async () => {
  const called = async (cluster: { rank: number }, { rate }: { rate: number }) => {
    const square = (value: number) => value * value;
    return { rank: square(cluster.rank), rate, url: new URL('a:b').href };
  };
  expect(await (await load(called.toString()))({ rank: 2 }, { rate: 0.5 })).toEqual({ rank: 4, rate: 0.5, url: 'a:b' });
});

test.each([
  ['a function that imports modules', 'async function () { return (await import("node:path")).basename("/a/b"); }', 'b'],
  ['a function that uses its own name and `arguments`', 'function train() { return [typeof train, arguments.length]; }', ['function', 2]],
  ['a shorthand method', 'async train(rank) { return rank + 1; }', 2],
  ['an arrow function with a comment at its end', 'async (x) => x // a comment', 1],
  ['the output of compilers', '() => { const double = /* @__PURE__ */ __name((x) => 2 * x, "double"); return double(2); }', 4],
])('%s runs from its text', async (_, source, value) => {
  expect(await (await load(source))(1, 2)).toEqual(value);
});

test('using a variable of the surrounding code fails with an explanation; other errors stay unchanged', async () => {
  const rate = 0.5;
  const outer = await load((async () => rate).toString());
  await expect(outer()).rejects.toThrow(
    'rate is not defined. run() sends only the source text of the function, so the function can use only its arguments,',
  );
  await expect((await load('() => { throw new RangeError("no"); }'))()).rejects.toThrow(new RangeError('no'));
});

test.each([
  ['a built-in function', Math.max.toString()],
  ['a bound function', (() => 1).bind(null).toString()],
  ['import.meta', '() => import.meta.url'],
  ['a setter', 'set rate(value) {'],
])('functionModule rejects %s', (_, source) => {
  expect(() => functionModule(source)).toThrow(expect.objectContaining({ code: 'FUNCTION_INVALID' }));
});
