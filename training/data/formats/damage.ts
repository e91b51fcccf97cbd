import { messageOf, TonyError } from '../../../platform/errors.ts';

/**
 * Returns the error for data that a decoder has rejected. Decoders, among them those of other packages, throw errors of many types, which
 * name neither the file nor the place. A TonyError is returned unchanged.
 */
export function undecodable(error: unknown, where: string): TonyError {
  return error instanceof TonyError ? error : new TonyError('DATA_INVALID', `${where}: ${messageOf(error)}`, { cause: error });
}

/** Calls a decoder. All its errors become TonyError DATA_INVALID. */
export function decoding<T>(where: string, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    throw undecodable(error, where);
  }
}

export function damageHandler(
  options: { readonly skipDamaged?: boolean },
  onSkip: (damage: TonyError) => void,
): (damage: TonyError) => void {
  return (damage) => {
    if (options.skipDamaged !== true) {
      throw damage;
    }
    onSkip(damage);
  };
}

/** Handles a read error. Reports damage, including failed decompression, to `onDamage`, and rethrows all other errors. */
export function skipUnreadable(error: unknown, onDamage: (damage: TonyError) => void): void {
  if ((error as { code?: unknown }).code !== 'DATA_INVALID') {
    throw error;
  }
  onDamage(error as TonyError);
}
