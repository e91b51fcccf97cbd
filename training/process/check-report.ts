import { checkOptionValues, isWhole } from '../../platform/check-options.ts';
import { TonyError } from '../../platform/errors.ts';
import { describeValue } from '../../platform/text/describe-value.ts';

/**
 * Checks the arguments of `report(values, { step })`.
 * @throws TonyError USAGE
 */
export function checkReport(name: string, values: Readonly<Record<string, number>>, options: { readonly step: number }): void {
  checkReported(name, values);
  // An absent step is invalid, too.
  checkOptionValues(name, { ...options, step: options?.step ?? Number.NaN }, { step: isWhole(0) });
}

/** @throws TonyError USAGE if `values` is not an object of numbers. */
export function checkReported(name: string, values: Readonly<Record<string, number>>): void {
  if (typeof values !== 'object' || values === null) {
    throw new TonyError('USAGE', `${name} needs an object with numbers, found ${describeValue(values)}`, {
      hint: `Pass the values first: ${name}({ loss: 0.5 }, { step }).`,
    });
  }
  const odd = Object.entries(values).find(([, value]) => typeof value !== 'number');
  if (odd !== undefined) {
    throw new TonyError('USAGE', `${name}: ${odd[0]} is ${describeValue(odd[1])}, but must be a number`);
  }
}
