const [ZERO, NINE, POINT, MINUS] = [0x30, 0x39, 0x2e, 0x2d] as const;
/** With up to 15 digits, both the digits as an integer and the power of ten are exact, so their quotient is the nearest number. */
const MAX_DIGITS = 15;
const POWERS = Float64Array.from({ length: MAX_DIGITS + 1 }, (_, digits) => Number(`1e${digits}`));

/** Reads decimal numbers such as -12.5 from the bytes of a text. Takes a fraction of the time of `Number`, which needs a string. */
export class PlainNumbers {
  #end = 0;

  /** The position behind the last number. */
  get end(): number {
    return this.#end;
  }

  /** Reads the number that begins at `from`. Returns NaN if it has no digits, or more than 15. */
  read(bytes: Uint8Array, from: number): number {
    const isNegative = bytes[from] === MINUS;
    const first = isNegative ? from + 1 : from;
    let value = 0;
    let point = -1;
    let at = first;
    for (; at < bytes.length; at++) {
      const code = bytes[at] as number;
      if (code >= ZERO && code <= NINE) {
        value = value * 10 + (code - ZERO);
      } else if (code === POINT && point === -1) {
        point = at;
      } else {
        break;
      }
    }
    this.#end = at;
    const digits = at - first - (point === -1 ? 0 : 1);
    if (digits === 0 || digits > MAX_DIGITS) {
      return Number.NaN;
    }
    const number = point === -1 ? value : value / (POWERS[at - point - 1] as number);
    return isNegative ? -number : number;
  }
}
