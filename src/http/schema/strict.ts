import { z } from 'zod';
import { didYouMean } from '../../words/nearest.ts';

/**
 * An object schema that refuses unknown members. Dropping a mistyped member silently could store or expose data against
 * the caller's intent.
 * @param what the expected value, for error messages, such as `an object`
 */
export const strictObject = <Shape extends z.core.$ZodLooseShape>(shape: Shape, what = 'an object') =>
  z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? unknownMembers(issue.keys, Object.keys(shape))
        : `expected ${what}`,
  });

const knownLabel = '; there are: ';
/** The most characters of an unknown member's name that are repeated. */
export const maxMemberName = 64;

function unknownMembers(keys: readonly string[], known: readonly string[]): string {
  const shown = keys.slice(0, 5).map((key) => unknownMember(key, known));
  return `${shown.join(', ')}${keys.length > shown.length ? ' and more' : ''}${knownLabel}${known.join(', ')}`;
}

function unknownMember(key: string, known: readonly string[]): string {
  const name = key.slice(0, maxMemberName);
  return `unknown member '${name}'${didYouMean(name, known, (near) => `'${near}'`)}`;
}

/**
 * The message of `strictObject` about several unknown members as one message for each; the last one lists those that there are.
 * @returns undefined for the message of another schema
 */
export function splitUnknownMembers(message: string, keys: readonly string[]): string[] | undefined {
  const [, list] = message.split(knownLabel);
  if (list === undefined) return undefined;
  const known = list.split(', ');
  return keys.map(
    (key, index) => unknownMember(key, known) + (index === keys.length - 1 ? knownLabel + list : ''),
  );
}
