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

function unknownMembers(keys: readonly string[], known: readonly string[]): string {
  const shown = keys.slice(0, 5).map((key) => {
    const name = key.slice(0, 64);
    return `unknown member '${name}'${didYouMean(name, known, (near) => `'${near}'`)}`;
  });
  return `${shown.join(', ')}${keys.length > shown.length ? ' and more' : ''}; there are: ${known.join(', ')}`;
}
