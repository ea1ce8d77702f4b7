import { nearestWord } from '../../../words/nearest.ts';

/** Suffix for an error message that suggests a similar known name; empty when there is none. */
export function suggestName(name: string, known: readonly string[]): string {
  const near = nearestWord(name, known);
  return near === undefined ? '' : `; did you mean '${near}'?`;
}
