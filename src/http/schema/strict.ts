import { z } from 'zod';
import { didYouMean } from '../../words/nearest.ts';

/**
 * An object without other members: a mistyped one would be dropped, and what it was to keep or to hide would not be.
 * @param what for messages: `an object`
 */
export const strict = <Shape extends z.core.$ZodLooseShape>(shape: Shape, what = 'an object') =>
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
