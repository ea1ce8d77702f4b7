/** Values of number literals. */
import { type ElementName, scalar } from './value-types.ts';
import { constantOf, type Value } from './values.ts';

const suffixes: Readonly<Record<string, ElementName>> = { i: 'i32', u: 'u32', f: 'f32', h: 'f16' };

/** @param text a number token of WGSL */
export function literal(text: string): Value {
  const isHex = /^0[xX]/.test(text);
  const suffix = (isHex && !/[pP.]/.test(text) ? /[iu]$/ : /[iufh]$/).exec(text)?.[0];
  const digits = suffix ? text.slice(0, -1) : text;
  const isFloat = isHex ? /[pP.]/.test(digits) : /[.eE]/.test(digits);
  const element = suffixes[suffix ?? ''] ?? (isFloat ? 'float' : 'int');
  return constantOf(scalar(element), isHex && isFloat ? hexFloat(digits) : Number(digits));
}

function hexFloat(digits: string): number {
  const [, whole = '', part = '', power = '0'] =
    /^0[xX]([\da-fA-F]*)\.?([\da-fA-F]*)(?:[pP]([+-]?\d+))?$/.exec(digits) ?? [];
  return Number.parseInt(`${whole}${part}` || '0', 16) * 2 ** (Number(power) - 4 * part.length);
}
